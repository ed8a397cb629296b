// The gradient of max_pool2d on [N, C, H, W].

#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

struct Window {
  int64_t size[2], stride[2], padding[2];
};

// One column of all windows of a row against the largest so far. `Step` is 0 where the compiler does
// not know it.
template <int Step>
void Compare(const float* from, int64_t step, int32_t shift, int64_t count, float* largest,
             int32_t* place) {
  const int64_t by = Step == 0 ? step : Step;
#pragma omp simd
  for (int64_t j = 0; j < count; ++j) {
    const float found = from[j * by];
    const bool better = found > largest[j] || found != found;
    largest[j] = better ? found : largest[j];
    place[j] = better ? shift + static_cast<int32_t>(j * by) : place[j];
  }
}

// The gradient of an output goes to the first of the largest inputs, or to the last NaN.
template <typename T>
ffi::Error Backward(ffi::ThreadPool& pool, ffi::AnyBuffer gradient, ffi::AnyBuffer input,
                    ffi::AnyBuffer result, const Window& window) {
  const auto from = gradient.dimensions(), to = input.dimensions();
  const int64_t height = to[2], width = to[3], out_height = from[2], out_width = from[3];
  const T* grads = static_cast<const T*>(gradient.untyped_data());
  const T* in = static_cast<const T*>(input.untyped_data());
  T* out = static_cast<T*>(result.untyped_data());
  const int64_t cost = 4 * out_height * out_width * window.size[0] * window.size[1];
  const int64_t left = window.padding[1], step = window.stride[1];
  // Up to the end of the last window, which may lie behind the padding in ceil_mode.
  const int64_t padded = std::max(
      width + left, (out_width - 1) * step + window.size[1]);
  std::vector<int32_t> first_column(out_width);  // in the image, of each window
  for (int64_t j = 0; j < out_width; ++j)
    first_column[j] = static_cast<int32_t>(std::max<int64_t>(j * step - left, 0));
  Parallel(pool, to[0] * to[1], Grain(cost), [&](int64_t begin, int64_t end) {
    std::vector<float> sums(height * width), largest(out_width);
    std::vector<float> line(padded, -std::numeric_limits<float>::infinity());
    std::vector<int32_t> place(out_width);
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* x = in + plane * height * width;
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t i = 0; i < out_height; ++i) {
        std::fill(largest.begin(), largest.end(), -std::numeric_limits<float>::infinity());
        bool is_first = true;
        for (int64_t k = 0; k < window.size[0]; ++k) {
          const int64_t row = i * window.stride[0] - window.padding[0] + k;
          if (row < 0 || row >= height) continue;
          for (int64_t j = 0; j < width; ++j) line[left + j] = ToFloat(x[row * width + j]);
          const int32_t start = static_cast<int32_t>(row * width);
          if (is_first)
            for (int64_t j = 0; j < out_width; ++j) place[j] = start + first_column[j];
          is_first = false;
          for (int64_t l = 0; l < window.size[1]; ++l) {
            const float* from_here = line.data() + l;
            const int32_t shift = start + static_cast<int32_t>(l - left);
            if (step == 1) {
              Compare<1>(from_here, 1, shift, out_width, largest.data(), place.data());
            } else if (step == 2) {
              Compare<2>(from_here, 2, shift, out_width, largest.data(), place.data());
            } else {
              Compare<0>(from_here, step, shift, out_width, largest.data(), place.data());
            }
          }
        }
        const T* grad = grads + (plane * out_height + i) * out_width;
        for (int64_t j = 0; j < out_width; ++j) sums[place[j]] += ToFloat(grad[j]);
      }
      for (int64_t i = 0; i < height * width; ++i) Store(out + plane * height * width + i, sums[i]);
    }
  });
  return ffi::Error::Success();
}

ffi::Error MaxPoolBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer input,
                           ffi::Result<ffi::AnyBuffer> result, ffi::Span<const int64_t> window) {
  if (window.size() != 6) return ffi::Error::InvalidArgument("max_pool2d: 6 numbers make a window");
  Window made;
  for (int axis = 0; axis < 2; ++axis) {
    made.size[axis] = window[axis], made.stride[axis] = window[2 + axis];
    made.padding[axis] = window[4 + axis];
  }
  PrepareResult(result->untyped_data(), result->size_bytes());
  return ForFloats(input.element_type(), [&](auto* type) {
    return Backward<std::remove_pointer_t<decltype(type)>>(pool, gradient, input, *result, made);
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_max_pool_backward, MaxPoolBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<ffi::Span<const int64_t>>("window"));
