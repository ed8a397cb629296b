// The gradients of softmax and log_softmax over the last dimension.

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBlock = 4096;  // of SumOf

// With y the result: y * (grad - sum(grad * y)).
template <typename T>
void OfSoftmax(const T* grad, const T* result, T* out, int64_t size) {
  const float sum = static_cast<float>(
      SumOf(size, kBlock, [=](int64_t j) { return ToFloat(grad[j]) * ToFloat(result[j]); }));
#pragma omp simd
  for (int64_t j = 0; j < size; ++j)
    Store(out + j, ToFloat(result[j]) * (ToFloat(grad[j]) - sum));
}

// With y the result: grad - exp(y) * sum(grad).
template <typename T>
void OfLogSoftmax(const T* grad, const T* result, T* out, int64_t size) {
  const float sum =
      static_cast<float>(SumOf(size, kBlock, [=](int64_t j) { return ToFloat(grad[j]); }));
#pragma omp simd
  for (int64_t j = 0; j < size; ++j)
    Store(out + j, ToFloat(grad[j]) - Exp(ToFloat(result[j])) * sum);
}

// Operands: gradient and result, [rows, size].
template <bool kLogarithm>
ffi::Error Backward(ffi::ThreadPool pool, ffi::AnyBuffer grad, ffi::AnyBuffer result,
                    ffi::Result<ffi::AnyBuffer> out) {
  const int64_t rows = result.dimensions()[0], size = result.dimensions()[1];
  PrepareResult(out->untyped_data(), out->size_bytes());
  return ForFloats(result.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* grads = static_cast<const T*>(grad.untyped_data());
    const T* results = static_cast<const T*>(result.untyped_data());
    T* to = static_cast<T*>(out->untyped_data());
    Parallel(pool, rows, Grain(8 * size), [&](int64_t begin, int64_t end) {
      for (int64_t at = begin * size; at < end * size; at += size) {
        if constexpr (kLogarithm) {
          OfLogSoftmax<T>(grads + at, results + at, to + at, size);
        } else {
          OfSoftmax<T>(grads + at, results + at, to + at, size);
        }
      }
    });
    return ffi::Error::Success();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_softmax_backward, Backward<false>,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_log_softmax_backward, Backward<true>,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());
