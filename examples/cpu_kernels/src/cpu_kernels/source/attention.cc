// Scaled dot-product attention and its gradient, in blocks of queries.
//
// The scores of a block are computed with all keys that some of its queries may look at, so that its
// softmax needs one pass, and the matrix products are those of ATen, on XLA's buffers where they lie.
// XLA's threads share the blocks. All is computed in f32: for bf16, ATen's products take many times as
// long on a processor with AVX2 alone.

#include <algorithm>
#include <cmath>
#include <exception>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/mm.h>
#include <ATen/ops/zeros.h>

#include "aten.h"
#include "memory.h"
#include "numbers.h"
#include "parallel.h"
#include "random.h"

namespace ffi = xla::ffi;

namespace {

constexpr float kLowest = -std::numeric_limits<float>::infinity();
constexpr int64_t kBlock = 2048;  // of SumOf
// Of queries that are computed together. With fewer, the products are slower; with more, more is
// computed of what a causal call masks.
constexpr int64_t kMostRows = 192, kFewestRows = 64;
constexpr int64_t kScores = 1 << 20;  // of a block, about

int64_t RowsOf(int64_t keys) {
  return std::clamp(kScores / keys, kFewestRows, kMostRows);
}

// A buffer [N, H, L, E], or [N, H, L], of whose heads rows are taken as matrices [rows, E].
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

  at::Tensor Part(int64_t n, int64_t h, int64_t row, int64_t count) const {
    const int64_t place = ((n * heads + h) * rows + row) * columns;
    return at::from_blob(data + place * static_cast<int64_t>(at::elementSize(type)),
                         {count, columns}, at::TensorOptions(type));
  }
};

// Memory of this thread, which is kept for the next block: fresh memory is cleared page by page.
float* Scratch(int number, int64_t size) {
  thread_local std::vector<float> kept[2];
  if (static_cast<int64_t>(kept[number].size()) < size) kept[number].resize(size);
  return kept[number].data();
}

at::Tensor Matrix(float* data, int64_t rows, int64_t columns) {
  return at::from_blob(data, {rows, columns}, at::TensorOptions(at::kFloat));
}

// ---- masks ----

struct Nothing {};  // the elements of no mask

inline float Masked(float score, Nothing) { return score; }
inline float Masked(float score, uint8_t kept) { return kept != 0 ? score : kLowest; }
template <typename T>
float Masked(float score, T added) {
  return score + ToFloat(added);
}

// Whether a mask makes a score minus infinity, unless it is infinite or no number itself.
inline bool Hides(uint8_t kept) { return kept == 0; }
template <typename T>
bool Hides(T added) {
  return ToFloat(added) == kLowest;
}

// A mask [N or 1, H or 1, L or 1, S or 1].
template <typename T>
class Mask {
 public:
  Mask(ffi::ThreadPool& pool, const Heads& mask, int64_t keys)
      : all_(reinterpret_cast<const T*>(mask.data)), given_(mask), keys_(keys) {
    if (mask.columns != keys) return;
    const int64_t rows = mask.batch * mask.heads * mask.rows;
    ends_.resize(rows);
    Parallel(pool, rows, Grain(64), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        int64_t found = keys_;
        while (found > 1 && Hides(all_[i * keys_ + found - 1])) --found;
        ends_[i] = found;
      }
    });
  }

  // The number of keys up to the last one that some of the rows may look at; at least 1.
  int64_t End(int64_t n, int64_t h, int64_t row, int64_t count) const {
    if (ends_.empty()) return keys_;
    const int64_t first = Line(n, h, row), last = given_.rows == 1 ? first + 1 : first + count;
    return *std::max_element(ends_.begin() + first, ends_.begin() + last);
  }

  // The elements of a row. `space` has room for them.
  const T* Row(int64_t n, int64_t h, int64_t row, T* space) const {
    const T* found = all_ + Line(n, h, row) * given_.columns;
    if (given_.columns == keys_) return found;
    std::fill_n(space, keys_, *found);
    return space;
  }

 private:
  int64_t Line(int64_t n, int64_t h, int64_t row) const {
    const int64_t head = (given_.batch == 1 ? 0 : n) * given_.heads + (given_.heads == 1 ? 0 : h);
    return head * given_.rows + (given_.rows == 1 ? 0 : row);
  }

  const T* all_;
  Heads given_;
  int64_t keys_;
  std::vector<int64_t> ends_;  // of each row of a mask that has a column for each key
};

template <>
class Mask<Nothing> {
 public:
  explicit Mask(int64_t keys) : keys_(keys) {}
  int64_t End(int64_t, int64_t, int64_t, int64_t) const { return keys_; }
  const Nothing* Row(int64_t, int64_t, int64_t, Nothing* space) const { return space; }

 private:
  int64_t keys_;
};

// ---- rows of scores ----

// Scales and masks a row of products, and returns its maximum.
template <typename T>
float MaskRow(float* row, const T* mask, int64_t keys, float scale) {
  float largest = kLowest;
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < keys; ++j) {
    const float score = Masked(row[j] * scale, mask[std::is_same_v<T, Nothing> ? 0 : j]);
    row[j] = score;
    largest = score > largest ? score : largest;
  }
  return largest;
}

// Whether a row may look at nothing. One of NaN has no maximum either.
bool Empty(const float* row, int64_t keys) {
  return std::all_of(row, row + keys, [](float score) { return score == kLowest; });
}

void Multiply(float* row, int64_t size, float factor) {
#pragma omp simd
  for (int64_t j = 0; j < size; ++j) row[j] *= factor;
}

// Scales and masks a row of products, replaces each score by exp(score - shift), and returns their
// sum. A loop of its own: in the lambda of SumOf, the compiler makes no vector code of it.
template <typename T>
double Exponentials(float* row, const T* mask, int64_t keys, float scale, float shift) {
  double total = 0;
  for (int64_t start = 0; start < keys; start += kBlock) {
    const int64_t end = std::min(keys, start + kBlock);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = start; j < end; ++j) {
      const T masked = mask[std::is_same_v<T, Nothing> ? 0 : j];
      const float found = Exp(Masked(row[j] * scale, masked) - shift);
      row[j] = found;
      sum += found;
    }
    total += sum;
  }
  return total;
}

double SumOfProducts(const float* one, const float* other, int64_t size) {
  return SumOf(size, kBlock, [=](int64_t j) { return one[j] * other[j]; });
}

// Makes probabilities of exponentials, and of gradients of probabilities those of the products: they
// go through softmax and the scale.
void OfProducts(float* exponentials, float* gradients, int64_t keys, float total, float scale) {
  const float factor = 1 / total;
  const auto sum = static_cast<float>(SumOfProducts(exponentials, gradients, keys)) * factor;
#pragma omp simd
  for (int64_t j = 0; j < keys; ++j) {
    const float probability = exponentials[j] * factor;
    exponentials[j] = probability;
    gradients[j] = probability * (gradients[j] - sum) * scale;
  }
}

// ---- calls ----

// What both directions share of a call.
template <typename T>
struct Call {
  Heads query, key, value;
  const Mask<T>& mask;
  bool is_causal;
  float scale;
  float kept;  // of probabilities; 1 without dropout
  uint64_t state;
  ffi::ThreadPool* pool;  // for the rows of a block, where there are fewer blocks than threads

  int64_t Keys(int64_t n, int64_t h, int64_t row, int64_t count) const {
    const int64_t seen = mask.End(n, h, row, count);
    return is_causal ? std::min(seen, row + count) : seen;
  }

  // How many of `keys` keys a row may look at.
  int64_t Seen(int64_t row, int64_t keys) const {
    return is_causal ? std::min(keys, row + 1) : keys;
  }

  // Calls work(begin, end) for parts of the rows of a block.
  template <typename Work>
  void ForRows(int64_t count, int64_t keys, const Work& work) const {
    if (pool == nullptr) {
      work(int64_t{0}, count);
    } else {
      Parallel(*pool, count, Grain(8 * keys), work);
    }
  }

  void Factors(int64_t n, int64_t h, int64_t row, int64_t keys, float* factors) const {
    const int64_t line = (n * query.heads + h) * query.rows + row;
    DropoutFactors(state, line * key.rows, keys, kept, factors);
  }
};

template <typename T>
void ForwardBlock(const Call<T>& call, const Heads& output, const Heads& sums, int64_t n,
                  int64_t h, int64_t row, int64_t count) {
  const int64_t of_keys = h / (call.query.heads / call.key.heads);
  const int64_t keys = call.Keys(n, h, row, count);
  float* scores = Scratch(0, count * keys);
  std::vector<float> totals(count);
  float* log_sums = sums.Part(n, h, row, count).data_ptr<float>();
  at::Tensor products = Matrix(scores, count, keys);
  at::mm_out(products, InF32(call.query.Part(n, h, row, count)),
             InF32(call.key.Part(n, of_keys, 0, keys)).t());
  call.ForRows(count, keys, [&](int64_t begin, int64_t end) {
    std::vector<float> factors(keys);
    std::vector<T> space(call.key.rows);
    for (int64_t i = begin; i < end; ++i) {
      float* line = scores + i * keys;
      const int64_t seen = call.Seen(row + i, keys);
      const T* mask = call.mask.Row(n, h, row + i, space.data());
      const float largest = MaskRow(line, mask, seen, call.scale);
      if (largest == kLowest && Empty(line, seen)) {
        std::fill_n(line, keys, 0.0f);
        totals[i] = 1, log_sums[i] = kLowest;
        continue;
      }
      const Nothing done;  // the row is scaled and masked already
      const double total = Exponentials(line, &done, seen, 1.0f, largest);
      totals[i] = static_cast<float>(total);
      log_sums[i] = static_cast<float>(largest + std::log(total));
      if (call.kept < 1) {
        call.Factors(n, h, row + i, seen, factors.data());
        ApplyFactors(line, factors.data(), line, seen);
      }
      std::fill_n(line + seen, keys - seen, 0.0f);
    }
  });
  at::Tensor result = output.Part(n, h, row, count);
  at::Tensor found = output.type == at::kFloat
                         ? result
                         : at::empty({count, output.columns}, at::TensorOptions(at::kFloat));
  at::mm_out(found, products, InF32(call.value.Part(n, of_keys, 0, keys)));
  float* numbers = found.data_ptr<float>();
  for (int64_t i = 0; i < count; ++i) {
    Multiply(numbers + i * output.columns, output.columns, 1 / totals[i]);
  }
  if (output.type != at::kFloat) result.copy_(found);
}

// Makes probabilities of the products of some queries with keys, and the gradients of these products
// of those of the probabilities.
template <typename T>
void BackwardRows(const Call<T>& call, int64_t n, int64_t h, int64_t row, int64_t count,
                  int64_t keys, const float* log_sums, float* scores, float* gradients) {
  call.ForRows(count, keys, [&](int64_t begin, int64_t end) {
    std::vector<float> factors(keys);
    std::vector<T> space(call.key.rows);
    for (int64_t i = begin; i < end; ++i) {
      float *line = scores + i * keys, *of_line = gradients + i * keys;
      const int64_t seen = log_sums[i] == kLowest ? 0 : call.Seen(row + i, keys);
      if (seen > 0) {
        const T* mask = call.mask.Row(n, h, row + i, space.data());
        // Nearly 1, or the number of scores where these are too large for `log_sums` to hold it.
        const double total = Exponentials(line, mask, seen, call.scale, log_sums[i]);
        if (call.kept < 1) {
          call.Factors(n, h, row + i, seen, factors.data());
          ApplyFactors(of_line, factors.data(), of_line, seen);
        }
        OfProducts(line, of_line, seen, static_cast<float>(total), call.scale);
        if (call.kept < 1) ApplyFactors(line, factors.data(), line, seen);
      }
      std::fill_n(line + seen, keys - seen, 0.0f);
      std::fill_n(of_line + seen, keys - seen, 0.0f);
    }
  });
}

// The gradients of a head of keys and values, and of the heads of queries that share it.
template <typename T>
void BackwardHead(const Call<T>& call, const Heads& given, const Heads& sums, const Heads& of_query,
                  const Heads& of_key, const Heads& of_value, int64_t n, int64_t of_keys) {
  const int64_t group = call.query.heads / call.key.heads;
  const int64_t length = call.query.rows, rows = std::min(RowsOf(call.key.rows), length);
  const at::Tensor key = InF32(call.key.Part(n, of_keys, 0, call.key.rows));
  const at::Tensor value = InF32(call.value.Part(n, of_keys, 0, call.value.rows));
  // Transposed: as products, they are faster so.
  const at::TensorOptions f32(at::kFloat);
  const at::Tensor of_keys_t = at::zeros({key.size(1), key.size(0)}, f32);
  const at::Tensor of_values_t = at::zeros({value.size(1), value.size(0)}, f32);
  float* scores = Scratch(0, rows * call.key.rows);
  float* gradients = Scratch(1, rows * call.key.rows);
  for (int64_t h = of_keys * group; h < (of_keys + 1) * group; ++h) {
    for (int64_t row = 0; row < length; row += rows) {
      const int64_t count = std::min(rows, length - row), keys = call.Keys(n, h, row, count);
      const at::Tensor query = InF32(call.query.Part(n, h, row, count));
      const at::Tensor grad = InF32(given.Part(n, h, row, count));
      at::Tensor products = Matrix(scores, count, keys);
      at::Tensor of_products = Matrix(gradients, count, keys);
      at::mm_out(products, query, key.narrow(0, 0, keys).t());
      at::mm_out(of_products, grad, value.narrow(0, 0, keys).t());
      BackwardRows(call, n, h, row, count, keys,
                   sums.Part(n, h, row, count).data_ptr<float>(), scores,
                   gradients);
      const at::Tensor result = of_query.Part(n, h, row, count);
      at::Tensor found = of_query.type == at::kFloat ? result : at::empty(result.sizes(), f32);
      at::mm_out(found, of_products, key.narrow(0, 0, keys));
      if (of_query.type != at::kFloat) result.copy_(found);
      of_keys_t.narrow(1, 0, keys).addmm_(query.t(), of_products);
      of_values_t.narrow(1, 0, keys).addmm_(grad.t(), products);
    }
  }
  of_key.Part(n, of_keys, 0, of_key.rows).copy_(of_keys_t.t());
  of_value.Part(n, of_keys, 0, of_value.rows).copy_(of_values_t.t());
}

// Calls f with the mask of a call, if there is one.
template <typename F>
ffi::Error WithMask(ffi::ThreadPool& pool, ffi::RemainingArgs& rest, bool masked, int64_t keys,
                    const F& f) {
  if (!masked) return f(Mask<Nothing>(keys));
  const ffi::AnyBuffer mask = *rest.get<ffi::AnyBuffer>(0);
  if (mask.element_type() == ffi::DataType::PRED) return f(Mask<uint8_t>(pool, Heads(mask), keys));
  return ForFloats(mask.element_type(), [&](auto* type) {
    return f(Mask<std::remove_pointer_t<decltype(type)>>(pool, Heads(mask), keys));
  });
}

// 0 without dropout. The seed is the last operand.
uint64_t State(ffi::RemainingArgs& rest, float kept) {
  if (kept == 1) return 0;
  return GeneratorState(*rest.get<ffi::Buffer<ffi::S64>>(rest.size() - 1)->typed_data());
}

// Operands: query, key, value, [mask], [seed]. Results: the output, and its logarithms of sums
// [N, H, L].
ffi::Error Attention(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                     ffi::AnyBuffer value, ffi::RemainingArgs rest,
                     ffi::Result<ffi::AnyBuffer> output, ffi::Result<ffi::AnyBuffer> sums,
                     bool is_causal, bool masked, float scale, float kept) try {
  const Heads q(query), k(key), v(value), out(*output), logarithms(*sums);
  PrepareResult(output->untyped_data(), output->size_bytes());
  return WithMask(pool, rest, masked, k.rows, [&]<typename T>(const Mask<T>& mask) {
    const int64_t rows = RowsOf(k.rows), blocks = (q.rows + rows - 1) / rows;
    const int64_t all = q.batch * q.heads * blocks;
    const Call<T> call{q, k, v, mask, is_causal, scale, kept, State(rest, kept),
                       all < pool.num_threads() ? &pool : nullptr};
    return OnThreads(pool, "attention", all, [&](int64_t i) {
      const int64_t head = i / blocks, row = i % blocks * rows;
      ForwardBlock(call, out, logarithms, head / q.heads, head % q.heads, row,
                   std::min(rows, q.rows - row));
    });
  });
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("attention: ") + error.what());
}

// Operands: gradient, query, key, value, [mask], logarithms of sums, [seed].
ffi::Error AttentionBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer query,
                             ffi::AnyBuffer key, ffi::AnyBuffer value, ffi::RemainingArgs rest,
                             ffi::Result<ffi::AnyBuffer> of_query,
                             ffi::Result<ffi::AnyBuffer> of_key,
                             ffi::Result<ffi::AnyBuffer> of_value, bool is_causal, bool masked,
                             float scale, float kept) try {
  const Heads g(gradient), q(query), k(key), v(value);
  const Heads sums(*rest.get<ffi::AnyBuffer>(masked));
  const Heads q_result(*of_query), k_result(*of_key), v_result(*of_value);
  return WithMask(pool, rest, masked, k.rows, [&]<typename T>(const Mask<T>& mask) {
    const int64_t all = k.batch * k.heads;
    const Call<T> call{q, k, v, mask, is_causal, scale, kept, State(rest, kept),
                       all < pool.num_threads() ? &pool : nullptr};
    return OnThreads(pool, "attention", all, [&](int64_t i) {
      BackwardHead(call, g, sums, q_result, k_result, v_result, i / k.heads, i % k.heads);
    });
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
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<bool>("is_causal")
                                  .Attr<bool>("masked")
                                  .Attr<float>("scale")
                                  .Attr<float>("kept"));

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
                                  .Attr<bool>("masked")
                                  .Attr<float>("scale")
                                  .Attr<float>("kept"));
