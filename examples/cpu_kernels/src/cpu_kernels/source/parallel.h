// Work on XLA's own threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>

#include "xla/ffi/api/ffi.h"

// Calls work(begin, end) for parts of [0, count), of at most `grain` items each.
//
// The caller takes parts too, and waits only for those that a thread has begun. So a pool whose
// threads are all busy, perhaps with callers like this one, cannot lock up.
template <typename Work>
void Parallel(xla::ffi::ThreadPool& pool, int64_t count, int64_t grain, const Work& work) {
  grain = std::max<int64_t>(grain, 1);
  const int64_t parts = (count + grain - 1) / grain;
  if (parts <= 1) {
    if (count > 0) work(int64_t{0}, count);
    return;
  }
  struct State {
    std::atomic<int64_t> next{0};
    int64_t done = 0;
    std::mutex mutex;
    std::condition_variable all_done;
  };
  auto state = std::make_shared<State>();
  // A late helper finds no part left, and does not touch `work`, which is the caller's.
  const Work* shared = &work;
  auto run = [=] {
    for (int64_t part; (part = state->next.fetch_add(1)) < parts;) {
      (*shared)(part * grain, std::min(count, (part + 1) * grain));
      std::lock_guard<std::mutex> lock(state->mutex);
      if (++state->done == parts) state->all_done.notify_all();
    }
  };
  const int64_t helpers = std::min<int64_t>(pool.num_threads(), parts) - 1;
  for (int64_t i = 0; i < helpers; ++i) pool.Schedule([run] { run(); });
  run();
  std::unique_lock<std::mutex> lock(state->mutex);
  state->all_done.wait(lock, [&] { return state->done == parts; });
}

// Of items that cost about this many operations each, how many are worth a thread's while.
inline int64_t Grain(int64_t cost) {
  return std::max<int64_t>(1, 32768 / std::max<int64_t>(cost, 1));
}
