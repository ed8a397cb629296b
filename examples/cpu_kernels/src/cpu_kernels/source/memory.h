// Large results.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

// Asks for large pages under a result that is about to be written. XLA allocates large buffers anew
// in each step, and the kernel of the system then clears them page by page: with pages of 4 KiB,
// this took longer than computing the gradient of 200 MB of logits.
inline void PrepareResult(void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  constexpr uintptr_t kPage = 2 << 20;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  // An advice: where the system does not take it, nothing is lost.
  if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}
