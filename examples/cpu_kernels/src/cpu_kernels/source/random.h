// The random numbers of dropout, as XLA's generator gives them.
//
// XLA's DEFAULT generator on the CPU is Philox 4x32-10 (Salmon et al., 2011): block i of four words has
// the state as its key, and as its counter (i, state).
#pragma once

#include <algorithm>
#include <cstdint>

constexpr int64_t kPhiloxBlocks = 64;  // of four words, that are computed together
constexpr int64_t kPhiloxWords = 4 * kPhiloxBlocks;
constexpr int kPhiloxRounds = 10;

// Words 4 * i + j of the blocks first + i.
inline void Random(uint64_t state, int64_t first, uint32_t* words) {
  constexpr int64_t kBlocks = kPhiloxBlocks;
  uint32_t a[kBlocks], b[kBlocks], c[kBlocks], d[kBlocks];
  for (int64_t i = 0; i < kBlocks; ++i) {
    const uint64_t block = static_cast<uint64_t>(first + i);
    a[i] = static_cast<uint32_t>(block), b[i] = static_cast<uint32_t>(block >> 32);
    c[i] = static_cast<uint32_t>(state), d[i] = static_cast<uint32_t>(state >> 32);
  }
  uint32_t low = static_cast<uint32_t>(state), high = static_cast<uint32_t>(state >> 32);
  for (int round = 0; round < kPhiloxRounds; ++round) {
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

// What a number is multiplied with: 1 / kept where its word, as a fraction of 1, is below `kept`, and
// otherwise 0.
inline void KeepFactors(const uint32_t* words, float* factors, int64_t size, float kept) {
  const float scale = 1.0f / kept;
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) {
    const float drawn = static_cast<float>(static_cast<int32_t>(words[i] >> 9)) * 0x1p-23f;
    factors[i] = drawn < kept ? scale : 0.0f;
  }
}

// torch_xla draws from what follows the seed in a linear congruential generator.
inline uint64_t GeneratorState(int64_t seed) {
  return static_cast<uint64_t>(seed) * 214013u + 2531011u;
}

// The factors of elements [start, start + size) of a tensor.
inline void DropoutFactors(uint64_t state, int64_t start, int64_t size, float kept,
                           float* factors) {
  uint32_t words[kPhiloxWords];
  for (int64_t done = 0; done < size;) {
    const int64_t element = start + done, block = element / 4;
    Random(state, block, words);
    const int64_t skipped = element - 4 * block;
    const int64_t count = std::min(kPhiloxWords - skipped, size - done);
    KeepFactors(words + skipped, factors + done, count, kept);
    done += count;
  }
}

// `out` may be `in`. A function of its own: in a lambda, the compiler makes no vector code of it.
inline void ApplyFactors(const float* in, const float* factors, float* out, int64_t size) {
#pragma omp simd
  for (int64_t i = 0; i < size; ++i) out[i] = in[i] * factors[i];
}
