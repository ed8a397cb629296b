// The gradient of an embedding's table.

#include <string>
#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

template <typename T>
ffi::Error Sum(ffi::ThreadPool& pool, const T* grads, const int64_t* indices, int64_t count,
               T* out, int64_t rows, int64_t columns, int64_t padding, bool by_frequency) {
  // The calls of each row, one behind the other, in their order: by counting.
  std::vector<int64_t> start(rows + 1), order(count);
  for (int64_t i = 0; i < count; ++i) {
    if (indices[i] < 0 || indices[i] >= rows) {
      return ffi::Error::InvalidArgument(
          "cpu_kernels_embedding_backward: index " + std::to_string(indices[i]) +
          " is not in 0.." + std::to_string(rows - 1));
    }
    ++start[indices[i] + 1];
  }
  for (int64_t row = 0; row < rows; ++row) start[row + 1] += start[row];
  std::vector<int64_t> next(start.begin(), start.end() - 1);
  for (int64_t i = 0; i < count; ++i) order[next[indices[i]]++] = i;

  Parallel(pool, rows, std::max<int64_t>(Grain(columns), rows / 256), [&](int64_t begin,
                                                                          int64_t end) {
    std::vector<float> sums(columns);
    for (int64_t row = begin; row < end; ++row) {
      T* result = out + row * columns;
      const int64_t first = start[row], last = row == padding ? first : start[row + 1];
      if (first == last) {
        std::memset(static_cast<void*>(result), 0, columns * sizeof(T));
        continue;
      }
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t i = first; i < last; ++i) {
        const T* grad = grads + order[i] * columns;
        for (int64_t j = 0; j < columns; ++j) sums[j] += ToFloat(grad[j]);
      }
      const float scale = by_frequency ? 1.0f / static_cast<float>(last - first) : 1.0f;
      for (int64_t j = 0; j < columns; ++j) Store(result + j, scale * sums[j]);
    }
  });
  return ffi::Error::Success();
}

ffi::Error EmbeddingBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient,
                             ffi::Buffer<ffi::S64> indices, ffi::Result<ffi::AnyBuffer> result,
                             int64_t padding, bool by_frequency) {
  PrepareResult(result->untyped_data(), result->size_bytes());
  return ForFloats(gradient.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return Sum<T>(pool, static_cast<const T*>(gradient.untyped_data()), indices.typed_data(),
                  static_cast<int64_t>(indices.element_count()),
                  static_cast<T*>(result->untyped_data()), result->dimensions()[0],
                  result->dimensions()[1], padding, by_frequency);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_embedding_backward, EmbeddingBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int64_t>("padding_idx")
                                  .Attr<bool>("scale_grad_by_freq"));
