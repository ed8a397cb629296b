// Bilinear resampling of [N, C, H, W], and its gradient.

#include <cmath>
#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

// For each place of an output axis: the two places of the input that it lies between.
struct Axis {
  std::vector<int64_t> low, high;
  std::vector<float> weight;  // of the higher one

  Axis(int64_t input, int64_t output, bool align_corners)
      : low(output), high(output), weight(output) {
    float ratio = output > 1 ? static_cast<float>(input - 1) / static_cast<float>(output - 1) : 0;
    if (!align_corners) ratio = static_cast<float>(input) / static_cast<float>(output);
    for (int64_t i = 0; i < output; ++i) {
      const float place = align_corners ? ratio * i : std::max(ratio * (i + 0.5f) - 0.5f, 0.0f);
      low[i] = std::min(static_cast<int64_t>(place), input - 1);
      high[i] = std::min(low[i] + 1, input - 1);
      weight[i] = std::min(place - static_cast<float>(low[i]), 1.0f);
    }
  }
};

template <typename T>
ffi::Error Forward(ffi::ThreadPool& pool, ffi::AnyBuffer input, ffi::AnyBuffer output,
                   bool align_corners) {
  const auto from = input.dimensions(), to = output.dimensions();
  const int64_t planes = from[0] * from[1], height = from[2], width = from[3];
  const int64_t out_height = to[2], out_width = to[3];
  const Axis rows(height, out_height, align_corners), columns(width, out_width, align_corners);
  const T* in = static_cast<const T*>(input.untyped_data());
  T* out = static_cast<T*>(output.untyped_data());
  const int64_t cost = 4 * out_height * out_width;
  Parallel(pool, planes, Grain(cost), [&](int64_t begin, int64_t end) {
    std::vector<float> mixed(width);
    for (int64_t plane = begin; plane < end; ++plane) {
      for (int64_t i = 0; i < out_height; ++i) {
        const T* low = in + (plane * height + rows.low[i]) * width;
        const T* high = in + (plane * height + rows.high[i]) * width;
        const float part = rows.weight[i], rest = 1 - part;
        for (int64_t j = 0; j < width; ++j)
          mixed[j] = rest * ToFloat(low[j]) + part * ToFloat(high[j]);
        T* row = out + (plane * out_height + i) * out_width;
        for (int64_t j = 0; j < out_width; ++j) {
          const float weight = columns.weight[j];
          Store(row + j, (1 - weight) * mixed[columns.low[j]] + weight * mixed[columns.high[j]]);
        }
      }
    }
  });
  return ffi::Error::Success();
}

template <typename T>
ffi::Error Backward(ffi::ThreadPool& pool, ffi::AnyBuffer gradient, ffi::AnyBuffer result,
                    bool align_corners) {
  const auto from = gradient.dimensions(), to = result.dimensions();
  const int64_t planes = to[0] * to[1], height = to[2], width = to[3];
  const int64_t out_height = from[2], out_width = from[3];
  const Axis rows(height, out_height, align_corners), columns(width, out_width, align_corners);
  const T* grads = static_cast<const T*>(gradient.untyped_data());
  T* out = static_cast<T*>(result.untyped_data());
  Parallel(pool, planes, Grain(4 * out_height * out_width), [&](int64_t begin, int64_t end) {
    std::vector<float> by_row(height * out_width), row(width);
    for (int64_t plane = begin; plane < end; ++plane) {
      std::fill(by_row.begin(), by_row.end(), 0.0f);
      for (int64_t i = 0; i < out_height; ++i) {
        const T* grad = grads + (plane * out_height + i) * out_width;
        const float part = rows.weight[i];
        for (auto [place, share] : {std::pair{rows.low[i], 1 - part}, {rows.high[i], part}}) {
          float* sums = by_row.data() + place * out_width;
          for (int64_t j = 0; j < out_width; ++j) sums[j] += share * ToFloat(grad[j]);
        }
      }
      for (int64_t i = 0; i < height; ++i) {
        std::fill(row.begin(), row.end(), 0.0f);
        const float* sums = by_row.data() + i * out_width;
        for (int64_t j = 0; j < out_width; ++j) {
          row[columns.low[j]] += (1 - columns.weight[j]) * sums[j];
          row[columns.high[j]] += columns.weight[j] * sums[j];
        }
        for (int64_t j = 0; j < width; ++j) Store(out + (plane * height + i) * width + j, row[j]);
      }
    }
  });
  return ffi::Error::Success();
}

ffi::Error Bilinear(ffi::ThreadPool pool, ffi::AnyBuffer input, ffi::Result<ffi::AnyBuffer> output,
                    bool align_corners) {
  PrepareResult(output->untyped_data(), output->size_bytes());
  return ForFloats(input.element_type(), [&](auto* type) {
    return Forward<std::remove_pointer_t<decltype(type)>>(pool, input, *output, align_corners);
  });
}

ffi::Error BilinearBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient,
                            ffi::Result<ffi::AnyBuffer> result, bool align_corners) {
  PrepareResult(result->untyped_data(), result->size_bytes());
  return ForFloats(gradient.element_type(), [&](auto* type) {
    return Backward<std::remove_pointer_t<decltype(type)>>(pool, gradient, *result, align_corners);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_bilinear, Bilinear,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<bool>("align_corners"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_bilinear_backward, BilinearBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<bool>("align_corners"));
