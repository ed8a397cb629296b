// Scaled dot-product attention and its gradient, by ATen's flash kernels for the CPU.
//
// Each head is a call of ATen of its own, on XLA's buffers where they lie, and XLA's threads share
// the heads.

#include <algorithm>
#include <cmath>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_local_scalar_dense.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu.h>
#include <ATen/ops/_scaled_dot_product_flash_attention_for_cpu_backward.h>
#include <ATen/ops/all.h>
#include <ATen/ops/eq.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/masked_fill.h>
#include <ATen/ops/zeros.h>

#include "aten.h"
#include "memory.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

// A buffer [N, H, L, E], or [N, H, L], of whose heads rows are taken as tensors [1, 1, rows, E].
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
                         {1, 1, count, columns}, at::TensorOptions(type));
  }
};

constexpr int64_t kRows = 192;  // of queries that are computed together

// What is added to the scores of some rows of queries and the first keys.
struct Added {
  std::optional<at::Tensor> tensor;
  int64_t keys;  // behind these, all scores of the rows are minus infinity
};

// The additive form of a mask [N or 1, H or 1, L or 1, S or 1], of the causal one, or of none.
class Mask {
 public:
  Mask(const Heads& query, const Heads& key, bool is_causal)
      : keys_(key.rows), type_(query.type), causal_(is_causal) {
    if (!causal_) return;
    // Zeros, and a triangle behind them: see Part.
    const int64_t width = keys_ + kRows;
    std::vector<char> kept(kRows * width);
    for (int64_t i = 0; i < kRows; ++i)
      for (int64_t j = 0; j < width; ++j) kept[i * width + j] = j - keys_ <= i;
    made_.resize(kept.size() * at::elementSize(type_));
    Write(kept.data(), 0, kRows * width);
    added_ = made_.data();
  }

  Mask(ffi::ThreadPool& pool, const Heads& query, const Heads& key, ffi::AnyBuffer mask)
      : keys_(key.rows), type_(query.type), given_(Heads(mask)) {
    const int64_t heads = given_->batch * given_->heads, columns = given_->columns;
    added_ = given_->data;
    if (given_->type == at::kBool) {  // which ATen does not take here
      made_.resize(heads * given_->rows * columns * at::elementSize(type_));
      Parallel(pool, heads * given_->rows, Grain(columns), [&](int64_t begin, int64_t end) {
        Write(given_->data, begin * columns, end * columns);
      });
      added_ = made_.data();
    }
    if (columns != keys_) return;
    parts_ = (given_->rows + kRows - 1) / kRows;
    ends_.resize(heads * parts_);
    Parallel(pool, heads * parts_, Grain(kRows * 8), [&](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) {
        ends_[i] = type_ == at::kFloat ? End<uint32_t>(i / parts_, i % parts_)
                                       : End<uint16_t>(i / parts_, i % parts_);
      }
    });
  }

  // For rows [row, row + rows) of a head's scores. `row` is a multiple of kRows.
  Added Part(int64_t n, int64_t h, int64_t row, int64_t rows) const {
    const int64_t size = static_cast<int64_t>(at::elementSize(type_));
    const at::TensorOptions options(type_);
    if (causal_) {
      if (row >= keys_) return {std::nullopt, keys_};
      // The key j of row + i is column keys_ - row + j of line i, which is zero for j <= row + i.
      const int64_t end = std::min(keys_, row + rows);
      return {at::from_blob(added_ + (keys_ - row) * size, {1, 1, rows, end},
                            {0, 0, keys_ + kRows, 1}, options),
              end};
    }
    if (!given_) return {std::nullopt, keys_};
    const int64_t head = (given_->batch == 1 ? 0 : n) * given_->heads + (given_->heads == 1 ? 0 : h);
    const int64_t first = given_->rows == 1 ? 0 : row;
    const int64_t keys = parts_ > 0 ? ends_[head * parts_ + first / kRows] : keys_;
    const int64_t place = (head * given_->rows + first) * given_->columns;
    return {at::from_blob(added_ + place * size, {1, 1, rows, keys},
                          {0, 0, given_->rows == 1 ? 0 : given_->columns,
                           given_->columns == 1 ? 0 : 1},
                          options),
            keys};
  }

 private:
  // Zero where a score is kept, and minus infinity elsewhere.
  void Write(const char* kept, int64_t begin, int64_t end) {
    if (type_ == at::kFloat) {
      auto* out = reinterpret_cast<uint32_t*>(made_.data());
      for (int64_t i = begin; i < end; ++i) out[i] = kept[i] ? 0 : Lowest<uint32_t>();
    } else {
      auto* out = reinterpret_cast<uint16_t*>(made_.data());
      for (int64_t i = begin; i < end; ++i) out[i] = kept[i] ? 0 : Lowest<uint16_t>();
    }
  }

  // Minus infinity.
  template <typename Bits>
  Bits Lowest() const {
    return static_cast<Bits>(type_ == at::kFloat      ? 0xff800000u
                             : type_ == at::kBFloat16 ? 0xff80u
                                                      : 0xfc00u);
  }

  // The number of keys up to the last one that some row of a part keeps; at least 1.
  template <typename Bits>
  int64_t End(int64_t head, int64_t part) const {
    const int64_t last = std::min(given_->rows, (part + 1) * kRows);
    const Bits* all = reinterpret_cast<const Bits*>(added_) + head * given_->rows * keys_;
    const Bits lowest = Lowest<Bits>();
    int64_t end = 1;
    for (int64_t row = part * kRows; row < last; ++row) {
      int64_t found = keys_;
      while (found > end && all[row * keys_ + found - 1] == lowest) --found;
      end = found;
    }
    return end;
  }

  int64_t keys_;
  at::ScalarType type_;
  bool causal_ = false;
  std::optional<Heads> given_;
  std::vector<char> made_;
  char* added_ = nullptr;
  int64_t parts_ = 0;  // of the rows of a mask that has a column for each key
  std::vector<int64_t> ends_;
};

template <typename Work>
ffi::Error ForHeads(ffi::ThreadPool& pool, int64_t batch, int64_t heads, const Work& head) {
  return OnThreads(pool, "attention", batch * heads,
                   [&](int64_t i) { head(i / heads, i % heads); });
}

// ATen has a logarithm of 0 for a row that may look at nothing. Its sum is zero.
void MarkEmptyRows(float* logarithms, int64_t rows, const at::Tensor& added) {
  for (int64_t i = 0; i < rows; ++i) {
    if (logarithms[i] != 0) continue;
    if (added.select(2, i).eq(-INFINITY).all().item<bool>()) logarithms[i] = -INFINITY;
  }
}

// Operands: query, key, value, [mask]. Results: the output, and its logarithms of sums [N, H, L].
ffi::Error Attention(ffi::ThreadPool pool, ffi::AnyBuffer query, ffi::AnyBuffer key,
                     ffi::AnyBuffer value, ffi::RemainingArgs rest,
                     ffi::Result<ffi::AnyBuffer> output, ffi::Result<ffi::AnyBuffer> sums,
                     bool is_causal, double scale) try {
  const Heads q(query), k(key), v(value), out(*output), logarithms(*sums);
  const bool masked = rest.size() > 0;
  const Mask mask =
      masked ? Mask(pool, q, k, *rest.get<ffi::AnyBuffer>(0)) : Mask(q, k, is_causal);
  const int64_t group = q.heads / k.heads;
  // Of causal attention ATen itself leaves out keys too, but takes longer.
  const int64_t rows = masked || is_causal ? kRows : q.rows;
  PrepareResult(output->untyped_data(), output->size_bytes());
  return ForHeads(pool, q.batch, q.heads, [&](int64_t n, int64_t h) {
    for (int64_t row = 0; row < q.rows; row += rows) {
      const int64_t count = std::min(rows, q.rows - row);
      const Added added = mask.Part(n, h, row, count);
      auto [result, sum] = at::_scaled_dot_product_flash_attention_for_cpu(
          q.Part(n, h, row, count), k.Part(n, h / group, 0, added.keys),
          v.Part(n, h / group, 0, added.keys), 0.0, false, added.tensor, scale);
      out.Part(n, h, row, count).copy_(result);
      const auto written = logarithms.Part(n, h, row, count);
      written.copy_(sum.unsqueeze(-1));
      if (masked) MarkEmptyRows(written.data_ptr<float>(), count, *added.tensor);
    }
  });
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("attention: ") + error.what());
}

// Of a row that may look at nothing it is minus infinity, and ATen would subtract this from scores
// that are so too. With infinity, all its probabilities are zero.
at::Tensor Logarithms(const Heads& sums, int64_t n, int64_t h, int64_t row, int64_t count) {
  const at::Tensor found = sums.Part(n, h, row, count).squeeze(-1);
  float* values = found.data_ptr<float>();
  if (std::none_of(values, values + count, [](float x) { return x == -INFINITY; })) return found;
  return found.masked_fill(found.eq(-INFINITY), INFINITY);
}

// Operands: gradient, query, key, value, [mask], output, logarithms of sums. All is
// computed in f32: for bf16, ATen's kernel takes eight times as long on a processor with AVX2 alone.
ffi::Error AttentionBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer query,
                             ffi::AnyBuffer key, ffi::AnyBuffer value, ffi::RemainingArgs rest,
                             ffi::Result<ffi::AnyBuffer> of_query,
                             ffi::Result<ffi::AnyBuffer> of_key,
                             ffi::Result<ffi::AnyBuffer> of_value, bool is_causal,
                             double scale) try {
  const size_t masked = rest.size() > 2;
  const Heads g(gradient), q(query), k(key), v(value);
  const Heads out(*rest.get<ffi::AnyBuffer>(masked)), sums(*rest.get<ffi::AnyBuffer>(masked + 1));
  const Heads q_result(*of_query), k_result(*of_key), v_result(*of_value);
  const Mask mask =
      masked ? Mask(pool, q, k, *rest.get<ffi::AnyBuffer>(0)) : Mask(q, k, is_causal);
  const int64_t group = q.heads / k.heads, rows = masked || is_causal ? kRows : q.rows;
  const bool once = group == 1 && !masked && !is_causal;
  // The heads of a group add to the same gradients, so one thread has the group.
  return ForHeads(pool, q.batch, k.heads, [&](int64_t n, int64_t of_group) {
    const at::Tensor keys = InF32(k.Part(n, of_group, 0, k.rows));
    const at::Tensor values = InF32(v.Part(n, of_group, 0, v.rows));
    at::Tensor k_sum, v_sum;
    if (!once) {
      k_sum = at::zeros({1, 1, k.rows, k.columns}, at::TensorOptions(at::kFloat));
      v_sum = at::zeros({1, 1, v.rows, v.columns}, at::TensorOptions(at::kFloat));
    }
    for (int64_t h = of_group * group; h < (of_group + 1) * group; ++h) {
      for (int64_t row = 0; row < q.rows; row += rows) {
        const int64_t count = std::min(rows, q.rows - row);
        const Added added = mask.Part(n, h, row, count);
        std::optional<at::Tensor> mask_part;
        if (added.tensor) mask_part = InF32(*added.tensor);
        auto [dq, dk, dv] = at::_scaled_dot_product_flash_attention_for_cpu_backward(
            InF32(g.Part(n, h, row, count)), InF32(q.Part(n, h, row, count)),
            keys.narrow(2, 0, added.keys), values.narrow(2, 0, added.keys),
            InF32(out.Part(n, h, row, count)), Logarithms(sums, n, h, row, count), 0.0, false,
            mask_part, scale);
        q_result.Part(n, h, row, count).copy_(dq);
        if (once) {
          k_sum = dk, v_sum = dv;
        } else {
          k_sum.narrow(2, 0, added.keys).add_(dk);
          v_sum.narrow(2, 0, added.keys).add_(dv);
        }
      }
    }
    k_result.Part(n, of_group, 0, k.rows).copy_(k_sum);
    v_result.Part(n, of_group, 0, v.rows).copy_(v_sum);
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
