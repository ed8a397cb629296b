// Linear layers whose weights are integers of 8 bits, of a few rows: x * weight^T, in f32.
//
// XLA writes the whole weight in f32 before it multiplies. Memory of more than 32 MiB it gets anew
// from the system for each call, which then takes ten times as long as the products. Here each row of
// the weight is read once, and its floats stay in the caches.

#include <type_traits>
#include <vector>

#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kLanes = 16;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

inline Floats Load(const float* from) {
  Floats result;
  std::memcpy(&result, from, sizeof result);
  return result;
}

// (weight - zero) * scale, in groups of `group` columns. Both steps round to T, as PyTorch does.
template <typename T>
void Dequantize(const int8_t* weight, const float* zeros, const T* scales, float* out, int64_t size,
                int64_t group) {
  for (int64_t k = 0; k < size; k += group, ++zeros, ++scales) {
    const float zero = *zeros, scale = ToFloat(*scales);
#pragma omp simd
    for (int64_t j = k; j < k + group; ++j) {
      T rounded;
      Store(&rounded, static_cast<float>(weight[j]) - zero);
      Store(&rounded, ToFloat(rounded) * scale);
      out[j] = ToFloat(rounded);
    }
  }
}

// The products of kRows rows of x with kColumns rows of a weight, both one below the other. The
// results are below each other too, at a distance of `stride`.
template <int kRows, int kColumns>
void Tile(const float* x, const float* weight, float* out, int64_t size, int64_t stride) {
  Floats sums[kRows][kColumns] = {};
  int64_t k = 0;
  for (; k + kLanes <= size; k += kLanes) {
    Floats columns[kColumns];
    for (int j = 0; j < kColumns; ++j) columns[j] = Load(weight + j * size + k);
    for (int i = 0; i < kRows; ++i) {
      const Floats row = Load(x + i * size + k);
      for (int j = 0; j < kColumns; ++j) sums[i][j] += row * columns[j];
    }
  }
  for (int i = 0; i < kRows; ++i) {
    for (int j = 0; j < kColumns; ++j) {
      float sum = 0;
      for (int64_t lane = 0; lane < kLanes; ++lane) sum += sums[i][j][lane];
      for (int64_t rest = k; rest < size; ++rest) sum += x[i * size + rest] * weight[j * size + rest];
      out[i * stride + j] = sum;
    }
  }
}

template <int kColumns>
void Tiles(const float* x, const float* weight, float* out, int64_t rows, int64_t size,
           int64_t stride) {
  int64_t row = 0;
  for (; row + 4 <= rows; row += 4)
    Tile<4, kColumns>(x + row * size, weight, out + row * stride, size, stride);
  for (; row < rows; ++row)
    Tile<1, kColumns>(x + row * size, weight, out + row * stride, size, stride);
}

constexpr int64_t kColumns = 4;  // rows of the weight that are multiplied at a time

// x * weight^T. T is the type of the scales, to which dequantized weights are rounded.
template <typename T>
void Multiply(ffi::ThreadPool& pool, const ffi::Buffer<ffi::F32>& x,
              const ffi::Buffer<ffi::S8>& weight, const ffi::Buffer<ffi::F32>& zeros,
              const ffi::AnyBuffer& scales, ffi::ResultBuffer<ffi::F32>& out) {
  const int64_t rows = x.dimensions()[0], size = x.dimensions()[1];
  const int64_t columns = weight.dimensions()[0], groups = scales.dimensions()[1];
  const float* from = x.typed_data();
  float* to = out->typed_data();
  const int8_t* weights = weight.typed_data();
  const float* zero = zeros.typed_data();
  const T* scale = static_cast<const T*>(scales.untyped_data());
  const int64_t grain = (Grain(size * (rows + 1) / 4) + kColumns - 1) / kColumns * kColumns;
  Parallel(pool, columns, grain, [&](int64_t begin, int64_t end) {
    std::vector<float> floats(kColumns * size);
    for (int64_t n = begin; n < end; n += kColumns) {
      const int64_t count = std::min(kColumns, end - n);
      for (int64_t j = n; j < n + count; ++j) {
        Dequantize(weights + j * size, zero + j * groups, scale + j * groups,
                   floats.data() + (j - n) * size, size, size / groups);
      }
      if (count == kColumns) {
        Tiles<kColumns>(from, floats.data(), to + n, rows, size, columns);
      } else {
        for (int64_t j = 0; j < count; ++j)
          Tiles<1>(from, floats.data() + j * size, to + n + j, rows, size, columns);
      }
    }
  });
}

// Operands: x, [M, K]; weight, [N, K]; zeros and scales of groups of columns, [N, K / group].
// Result: [M, N].
ffi::Error Product(ffi::ThreadPool pool, ffi::Buffer<ffi::F32> x, ffi::Buffer<ffi::S8> weight,
                   ffi::Buffer<ffi::F32> zeros, ffi::AnyBuffer scales,
                   ffi::ResultBuffer<ffi::F32> out) {
  return ForFloats(scales.element_type(), [&](auto* type) {
    Multiply<std::remove_pointer_t<decltype(type)>>(pool, x, weight, zeros, scales, out);
    return ffi::Error::Success();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_quantized_product, Product,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::Buffer<ffi::S8>>()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::F32>>());
