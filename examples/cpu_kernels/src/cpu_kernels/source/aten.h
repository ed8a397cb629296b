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

// The settings of OpenMP and of MKL are per thread. The functions are those of the libraries that ATen
// has loaded; second copies would have settings of their own.
struct ThreadSettings {
  void (*set_openmp)(int) = nullptr;
  int (*get_openmp)() = nullptr;
  int (*set_mkl)(int) = nullptr;  // for this thread; returns what it was, and 0 means no setting

  static const ThreadSettings& OfATen() {
    static const ThreadSettings found = [] {
      ThreadSettings result;
      if (void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD)) {
        result.set_openmp = reinterpret_cast<void (*)(int)>(dlsym(library, "omp_set_num_threads"));
        result.get_openmp = reinterpret_cast<int (*)()>(dlsym(library, "omp_get_max_threads"));
        // An ATen with another BLAS has none.
        result.set_mkl = reinterpret_cast<int (*)(int)>(dlsym(library, "MKL_Set_Num_Threads_Local"));
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
    const ThreadSettings& settings = ThreadSettings::OfATen();
    if (settings.set_openmp != nullptr && settings.get_openmp != nullptr) {
      openmp_ = settings.get_openmp();
      settings.set_openmp(1);
    }
    if (settings.set_mkl != nullptr) mkl_ = settings.set_mkl(1);
  }
  ~OneThread() {
    const ThreadSettings& settings = ThreadSettings::OfATen();
    if (openmp_ > 0) settings.set_openmp(openmp_);
    if (settings.set_mkl != nullptr) settings.set_mkl(mkl_);
  }

 private:
  int openmp_ = 0, mkl_ = 0;
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
