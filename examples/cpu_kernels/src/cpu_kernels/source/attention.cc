// Scaled dot-product attention and its gradient, by ATen's flash kernels for the CPU.
//
// Each head is a call of ATen of its own, on XLA's buffers where they lie, and XLA's threads share
// the heads. ATen's own threads (OpenMP) stay out of it: both pools together would have more
// threads than the processor has cores.

#include <dlfcn.h>

#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Parallel.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/from_blob.h>
#include <c10/core/InferenceMode.h>

#include "memory.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

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

at::ScalarType TypeOf(ffi::AnyBuffer buffer) {
  switch (buffer.element_type()) {
    case ffi::DataType::F32:
      return at::kFloat;
    case ffi::DataType::BF16:
      return at::kBFloat16;
    case ffi::DataType::F16:
      return at::kHalf;
    case ffi::DataType::PRED:
      return at::kBool;
    default:
      throw std::invalid_argument("attention takes f32, bf16, f16 and masks of i1");
  }
}

// A buffer [N, H, L, E] whose heads are tensors [1, 1, L, E].
struct Heads {
  char* data;
  at::ScalarType type;
  int64_t batch, heads, rows, columns;

  explicit Heads(ffi::AnyBuffer buffer)
      : data(static_cast<char*>(buffer.untyped_data())), type(TypeOf(buffer)) {
    const auto sizes = buffer.dimensions();
    batch = sizes[0], heads = sizes[1], rows = sizes[2];
    columns = sizes.size() > 3 ? sizes[3] : 1;
  }

  void* At(int64_t n, int64_t h) const {
    const int64_t bytes = static_cast<int64_t>(at::elementSize(type));
    return data + (n * heads + h) * rows * columns * bytes;
  }
  at::Tensor Head(int64_t n, int64_t h) const {
    return at::from_blob(At(n, h), {1, 1, rows, columns}, at::TensorOptions(type));
  }
};

// What is added to the scores, [N or 1, H or 1, L or 1, S or 1].
class Mask {
 public:
  Mask(ffi::ThreadPool& pool, ffi::AnyBuffer buffer, at::ScalarType type)
      : heads_(buffer), added_(heads_.data), type_(type) {
    if (heads_.type == at::kBool) {
      // ATen takes no booleans here.
      const int64_t count = heads_.batch * heads_.heads * heads_.rows * heads_.columns;
      const size_t size = at::elementSize(type);
      made_.resize(count * size);
      const bool* kept = reinterpret_cast<const bool*>(heads_.data);
      Parallel(pool, count, 1 << 16, [&](int64_t begin, int64_t end) {
        if (type == at::kFloat) {
          Fill(reinterpret_cast<uint32_t*>(made_.data()), kept, begin, end, 0xff800000u);
        } else {
          const uint16_t lowest = type == at::kBFloat16 ? 0xff80 : 0xfc00;
          Fill(reinterpret_cast<uint16_t*>(made_.data()), kept, begin, end, lowest);
        }
      });
      added_ = made_.data();
    }
  }

  at::Tensor Head(int64_t n, int64_t h, int64_t rows, int64_t columns) const {
    const int64_t place = (heads_.batch == 1 ? 0 : n) * heads_.heads + (heads_.heads == 1 ? 0 : h);
    const int64_t bytes = static_cast<int64_t>(at::elementSize(type_));
    char* start = added_ + place * heads_.rows * heads_.columns * bytes;
    const int64_t stride = heads_.rows == 1 ? 0 : heads_.columns;
    const int64_t step = heads_.columns == 1 && columns > 1 ? 0 : 1;
    return at::from_blob(start, {1, 1, rows, columns}, {0, 0, stride, step},
                         at::TensorOptions(type_));
  }

 private:
  template <typename Bits>
  static void Fill(Bits* out, const bool* kept, int64_t begin, int64_t end, Bits lowest) {
    for (int64_t i = begin; i < end; ++i) out[i] = kept[i] ? Bits{0} : lowest;
  }

  Heads heads_;
  std::vector<char> made_;
  char* added_;
  at::ScalarType type_;
};

// Runs `head(n, h)` for parts of the heads, and returns the first failure.
template <typename Work>
ffi::Error ForHeads(ffi::ThreadPool& pool, int64_t batch, int64_t heads, const Work& head) {
  std::mutex mutex;
  std::string failure;
  auto part = [&](int64_t begin, int64_t end) {
    try {
      c10::InferenceMode guard;
      for (int64_t i = begin; i < end; ++i) head(i / heads, i % heads);
    } catch (const std::exception& error) {
      std::lock_guard<std::mutex> lock(mutex);
      if (failure.empty()) failure = error.what();
    }
  };
  if (batch * heads < pool.num_threads()) {
    part(0, batch * heads);  // too few heads to share: ATen's threads divide each one
  } else {
    Parallel(pool, batch * heads, 1, [&](int64_t begin, int64_t end) {
      OneThread guard;
      part(begin, end);
    });
  }
  return failure.empty() ? ffi::Error::Success() : ffi::Error::Internal("attention: " + failure);
}

// Operands: query, key, value, [mask]. Results: the output, and its logarithms of sums [N, H, L].
ffi::Error Attention(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                     ffi::AnyBuffer value, ffi::RemainingArgs rest,
                     ffi::Result<ffi::AnyBuffer> output, ffi::ResultBuffer<ffi::F32> sums,
                     bool is_causal, double scale) try {
  const Heads q(query), k(key), v(value), out(*output);
  std::optional<Mask> mask;
  if (rest.size() > 0) mask.emplace(pool, *rest.get<ffi::AnyBuffer>(0), q.type);
  const int64_t group = q.heads / k.heads;
  PrepareResult(output->untyped_data(), output->size_bytes());
  return ForHeads(pool, q.batch, q.heads, [&](int64_t n, int64_t h) {
    std::optional<at::Tensor> added;
    if (mask) added = mask->Head(n, h, q.rows, k.rows);
    auto [result, logarithms] = at::_scaled_dot_product_flash_attention_for_cpu(
        q.Head(n, h), k.Head(n, h / group), v.Head(n, h / group), 0.0, is_causal, added, scale);
    out.Head(n, h).copy_(result);
    const int64_t place = (n * q.heads + h) * q.rows;
    at::from_blob(sums->typed_data() + place, {1, 1, q.rows}, at::TensorOptions(at::kFloat))
        .copy_(logarithms);
  });
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("attention: ") + error.what());
}

// Operands: gradient, query, key, value, [mask], output, logarithms of sums.
ffi::Error AttentionBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer query,
                             ffi::AnyBuffer key, ffi::AnyBuffer value, ffi::RemainingArgs rest,
                             ffi::Result<ffi::AnyBuffer> of_query,
                             ffi::Result<ffi::AnyBuffer> of_key,
                             ffi::Result<ffi::AnyBuffer> of_value, bool is_causal,
                             double scale) try {
  const size_t masked = rest.size() > 2;
  const Heads g(gradient), q(query), k(key), v(value);
  const Heads out(*rest.get<ffi::AnyBuffer>(masked));
  float* sums = rest.get<ffi::Buffer<ffi::F32>>(masked + 1)->typed_data();
  const Heads q_result(*of_query), k_result(*of_key), v_result(*of_value);
  std::optional<Mask> mask;
  if (masked) mask.emplace(pool, *rest.get<ffi::AnyBuffer>(0), q.type);
  const int64_t group = q.heads / k.heads;
  // The heads of a group add to the same gradients, so one thread has the group.
  return ForHeads(pool, q.batch, k.heads, [&](int64_t n, int64_t of_group) {
    at::Tensor k_sum, v_sum;
    for (int64_t h = of_group * group; h < (of_group + 1) * group; ++h) {
      std::optional<at::Tensor> added;
      if (mask) added = mask->Head(n, h, q.rows, k.rows);
      const auto logarithms = at::from_blob(sums + (n * q.heads + h) * q.rows, {1, 1, q.rows},
                                            at::TensorOptions(at::kFloat));
      auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
          g.Head(n, h), q.Head(n, h), k.Head(n, of_group), v.Head(n, of_group), out.Head(n, h),
          logarithms, 0.0, is_causal, added, scale);
      q_result.Head(n, h).copy_(dq);
      if (group == 1) {
        k_result.Head(n, of_group).copy_(dk);
        v_result.Head(n, of_group).copy_(dv);
      } else if (!k_sum.defined()) {
        k_sum = dk.to(at::kFloat), v_sum = dv.to(at::kFloat);
      } else {
        k_sum.add_(dk), v_sum.add_(dv);
      }
    }
    if (group > 1) {
      k_result.Head(n, of_group).copy_(k_sum);
      v_result.Head(n, of_group).copy_(v_sum);
    }
  });
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("attention: ") + error.what());
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_attention, Attention,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<bool>("is_causal")
                                  .Attr<double>("scale"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_attention_backward, AttentionBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<bool>("is_causal")
                                  .Attr<double>("scale"));
