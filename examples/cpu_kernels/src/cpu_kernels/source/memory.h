// Large results.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>

#ifdef __SSE2__
#include <emmintrin.h>
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

// Copies a block to a large result, past the caches: they would first read what is overwritten, and
// drop what is still to be read.
inline void Stream(void* out, const void* block, size_t bytes) {
  char* to = static_cast<char*>(out);
  const char* from = static_cast<const char*>(block);
#ifdef __SSE2__
  const size_t before = (16 - reinterpret_cast<uintptr_t>(to) % 16) % 16;
  if (before < bytes) {
    std::memcpy(to, from, before);
    to += before, from += before, bytes -= before;
    for (; bytes >= 16; to += 16, from += 16, bytes -= 16) {
      _mm_stream_si128(reinterpret_cast<__m128i*>(to),
                       _mm_loadu_si128(reinterpret_cast<const __m128i*>(from)));
    }
  }
#endif
  std::memcpy(to, from, bytes);
}

// After the last `Stream` of a thread, before another thread reads the result.
inline void FinishStreams() {
#ifdef __SSE2__
  _mm_sfence();
#endif
}
