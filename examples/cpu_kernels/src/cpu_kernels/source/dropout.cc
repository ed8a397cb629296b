// Dropout and its gradient: the numbers that XLA's generator gives, on XLA's threads.

#include "memory.h"
#include "parallel.h"
#include "random.h"

namespace ffi = xla::ffi;

namespace {

// Of x, or of the gradient of its result.
ffi::Error Dropout(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::S64> seed,
                   ffi::ResultBuffer<ffi::F32> result, float kept) {
  const uint64_t state = GeneratorState(*seed.typed_data());
  const float* in = x.typed_data();
  float* out = result->typed_data();
  const int64_t count = static_cast<int64_t>(x.element_count());
  PrepareResult(out, result->size_bytes());
  const int64_t parts = (count + kPhiloxWords - 1) / kPhiloxWords;
  Parallel(pool, parts, Grain(2 * kPhiloxWords), [&](int64_t begin, int64_t end) {
    float factors[kPhiloxWords];
    for (int64_t part = begin; part < end; ++part) {
      const int64_t start = part * kPhiloxWords, size = std::min(kPhiloxWords, count - start);
      DropoutFactors(state, start, size, kept, factors);
      ApplyFactors(in + start, factors, out + start, size);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_dropout, Dropout,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("kept"));
