// Dropout and its gradient: the numbers that XLA's generator gives, on XLA's threads.
//
// XLA's DEFAULT generator on the CPU is Philox 4x32-10 (Salmon et al., 2011): block i of four words has
// the state as its key, and as its counter (i, state).

#include "memory.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBlocks = 64;  // of four numbers, that are computed together
constexpr int kRounds = 10;

// Words 4 * i + j of the blocks first + i.
void Random(uint64_t state, int64_t first, uint32_t* words) {
  uint32_t a[kBlocks], b[kBlocks], c[kBlocks], d[kBlocks];
  for (int64_t i = 0; i < kBlocks; ++i) {
    const uint64_t block = static_cast<uint64_t>(first + i);
    a[i] = static_cast<uint32_t>(block), b[i] = static_cast<uint32_t>(block >> 32);
    c[i] = static_cast<uint32_t>(state), d[i] = static_cast<uint32_t>(state >> 32);
  }
  uint32_t low = static_cast<uint32_t>(state), high = static_cast<uint32_t>(state >> 32);
  for (int round = 0; round < kRounds; ++round) {
#pragma omp simd
    for (int64_t i = 0; i < kBlocks; ++i) {
      const uint64_t of_a = uint64_t{a[i]} * 0xD2511F53u, of_c = uint64_t{c[i]} * 0xCD9E8D57u;
      a[i] = static_cast<uint32_t>(of_c >> 32) ^ b[i] ^ low;
      b[i] = static_cast<uint32_t>(of_c);
      c[i] = static_cast<uint32_t>(of_a >> 32) ^ d[i] ^ high;
      d[i] = static_cast<uint32_t>(of_a);
    }
    low += 0x9E3779B9u, high += 0xBB67AE85u;
  }
  for (int64_t i = 0; i < kBlocks; ++i) {
    words[4 * i] = a[i], words[4 * i + 1] = b[i];
    words[4 * i + 2] = c[i], words[4 * i + 3] = d[i];
  }
}

// The numbers whose word, as a fraction of 1, is below `kept`; zero in place of the others. A function
// of its own: in the lambda below, the compiler makes no vector code of it.
void Keep(const uint32_t* words, const float* in, float* out, int64_t size, float kept) {
  const float scale = 1.0f / kept;
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const float drawn = static_cast<float>(static_cast<int32_t>(words[i] >> 9)) * 0x1p-23f;
    const float factor = drawn < kept ? scale : 0.0f;
    out[i] = in[i] * factor;
  }
}

// Of x, or of the gradient of its result.
ffi::Error Dropout(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::S64> seed,
                   ffi::ResultBuffer<ffi::F32> result, float kept) {
  // torch_xla draws from what follows the seed in a linear congruential generator.
  const uint64_t state = static_cast<uint64_t>(*seed.typed_data()) * 214013u + 2531011u;
  const float* in = x.typed_data();
  float* out = result->typed_data();
  const int64_t count = static_cast<int64_t>(x.element_count()), each = 4 * kBlocks;
  PrepareResult(out, result->size_bytes());
  Parallel(pool, (count + each - 1) / each, Grain(2 * each), [&](int64_t begin, int64_t end) {
    uint32_t words[each];
    for (int64_t part = begin; part < end; ++part) {
      Random(state, part * kBlocks, words);
      const int64_t start = part * each, size = std::min(each, count - start);
      Keep(words, in + start, out + start, size, kept);
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
