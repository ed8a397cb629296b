// Large results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <immintrin.h>
#endif

#ifdef __linux__
#include <sys/mman.h>
#endif

constexpr size_t kLarge = size_t{32} << 20;  // in bytes: more than the caches hold

// Asks for large pages under a result that is about to be written. XLA allocates large buffers anew
// for each run, and Linux then clears them page by page: with pages of 4 KiB, this takes longer than
// to compute the gradient of 200 MB of logits. Smaller ones malloc mostly has from before.
inline void PrepareResult(void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes < kLarge) return;
  constexpr uintptr_t kPage = 2 << 20;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  // An advice: where the system does not take it, nothing is lost.
  if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}

constexpr size_t kLine = 64;  // bytes of a line of the caches

// Copies a line to one of a large result, past the caches: they would first read what is
// overwritten, and drop what is still to be read. Both are aligned.
inline void StreamLine(void* out, const void* line) {
#if defined(__AVX__)
  for (size_t at = 0; at < kLine; at += 32) {
    _mm256_stream_si256(reinterpret_cast<__m256i*>(static_cast<char*>(out) + at),
                        _mm256_load_si256(reinterpret_cast<const __m256i*>(
                            static_cast<const char*>(line) + at)));
  }
#elif defined(__SSE2__)
  for (size_t at = 0; at < kLine; at += 16) {
    _mm_stream_si128(reinterpret_cast<__m128i*>(static_cast<char*>(out) + at),
                     _mm_load_si128(reinterpret_cast<const __m128i*>(
                         static_cast<const char*>(line) + at)));
  }
#else
  std::memcpy(out, line, kLine);
#endif
}

// After the last `StreamLine` of a thread, before another thread reads the result.
inline void FinishStreams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}
