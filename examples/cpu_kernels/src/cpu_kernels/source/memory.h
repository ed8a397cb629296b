// Large results.
#pragma once

#include <cstddef>
#include <cstdint>

#ifdef __linux__
#include <sys/mman.h>
#endif

// Asks for large pages under a result that is about to be written. XLA allocates large buffers anew
// for each run, and Linux then clears them page by page: with pages of 4 KiB, this takes longer than
// to compute the gradient of 200 MB of logits. Smaller ones malloc mostly has from before.
inline void PrepareResult(void* data, size_t bytes) {
#ifdef MADV_HUGEPAGE
  if (bytes < (size_t{32} << 20)) return;
  constexpr uintptr_t kPage = 2 << 20;
  const uintptr_t start = (reinterpret_cast<uintptr_t>(data) + kPage - 1) / kPage * kPage;
  const uintptr_t end = (reinterpret_cast<uintptr_t>(data) + bytes) / kPage * kPage;
  // An advice: where the system does not take it, nothing is lost.
  if (end > start) madvise(reinterpret_cast<void*>(start), end - start, MADV_HUGEPAGE);
#else
  (void)data, (void)bytes;
#endif
}
