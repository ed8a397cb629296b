// What the kernels that call ATen share: the types of its tensors, and its threads.
//
// ATen has threads of its own, those of OpenMP. Both pools together would have more threads than the
// processor has cores, so XLA's threads share the work, and ATen's stay out of it.
#pragma once

#include <dlfcn.h>

#include <exception>
#include <mutex>
#include <stdexcept>
#include <string>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <c10/core/InferenceMode.h>
#include <c10/util/Exception.h>

#include "parallel.h"
#include "xla/ffi/api/ffi.h"

// OpenMP's settings are per thread. The functions are those of the OpenMP that ATen has loaded; a
// second copy of it would have settings of its own.
struct OpenMP {
  using Set = void (*)(int);
  using Get = int (*)();
  Set set = nullptr;
  Get get = nullptr;

  static const OpenMP& OfATen() {
    static const OpenMP found = [] {
      OpenMP result;
      if (void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) {
        result.set = reinterpret_cast<Set>(dlsym(library, "omp_set_num_threads"));
        result.get = reinterpret_cast<Get>(dlsym(library, "omp_get_max_threads"));
      }
      return result;
    }();
    return found;
  }
};

// While it lives, what ATen does in this thread it does in this thread only.
class OneThread {
 public:
  OneThread() {
    at::get_num_threads();  // ATen sets its number when a thread asks it for the first time
    const OpenMP& openmp = OpenMP::OfATen();
    if (openmp.set == nullptr || openmp.get == nullptr) return;
    before_ = openmp.get();
    openmp.set(1);
  }
  ~OneThread() {
    if (before_ > 0) OpenMP::OfATen().set(before_);
  }

 private:
  int before_ = 0;
};

inline at::ScalarType TypeOf(xla::ffi::AnyBuffer buffer) {
  switch (buffer.element_type()) {
    case xla::ffi::DataType::F32:
      return at::kFloat;
    case xla::ffi::DataType::BF16:
      return at::kBFloat16;
    case xla::ffi::DataType::F16:
      return at::kHalf;
    case xla::ffi::DataType::PRED:
      return at::kBool;
    default:
      throw std::invalid_argument("kernels of ATen take f32, bf16, f16 and i1");
  }
}

// For what ATen is slow at in bf16 and f16, where the processor has no instructions for them.
inline at::Tensor InF32(const at::Tensor& tensor) { return tensor.to(at::kFloat); }

// Calls work(i) for each i in [0, count), and returns the first failure. One thread computes one of
// them, unless there are fewer than threads: then ATen's threads divide what each call of ATen does.
template <typename Work>
xla::ffi::Error OnThreads(xla::ffi::ThreadPool& pool, const char* name, int64_t count,
                          const Work& work) {
  std::mutex mutex;
  std::string failure;
  auto part = [&](int64_t begin, int64_t end) {
    try {
      c10::InferenceMode guard;
      for (int64_t i = begin; i < end; ++i) work(i);
    } catch (const c10::Error& error) {
      std::lock_guard<std::mutex> lock(mutex);
      if (failure.empty()) failure = error.what_without_backtrace();
    } catch (const std::exception& error) {
      std::lock_guard<std::mutex> lock(mutex);
      if (failure.empty()) failure = error.what();
    }
  };
  if (count < pool.num_threads()) {
    part(0, count);
  } else {
    Parallel(pool, count, 1, [&](int64_t begin, int64_t end) {
      OneThread guard;
      part(begin, end);
    });
  }
  if (failure.empty()) return xla::ffi::Error::Success();
  return xla::ffi::Error::Internal(std::string(name) + ": " + failure);
}
