// The gradient of max_pool2d on [N, C, H, W].

#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

struct Window {
  int64_t size[2], stride[2], padding[2], dilation[2];
};

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
  Parallel(pool, to[0] * to[1], Grain(cost), [&](int64_t begin, int64_t end) {
    std::vector<float> sums(height * width);
    std::vector<float> largest(out_width);
    std::vector<int64_t> place(out_width);
    for (int64_t plane = begin; plane < end; ++plane) {
      const T* x = in + plane * height * width;
      std::fill(sums.begin(), sums.end(), 0.0f);
      for (int64_t i = 0; i < out_height; ++i) {
        std::fill(largest.begin(), largest.end(), -std::numeric_limits<float>::infinity());
        std::fill(place.begin(), place.end(), int64_t{-1});
        for (int64_t k = 0; k < window.size[0]; ++k) {
          const int64_t row = i * window.stride[0] - window.padding[0] + k * window.dilation[0];
          if (row < 0 || row >= height) continue;
          for (int64_t l = 0; l < window.size[1]; ++l) {
            const int64_t shift = l * window.dilation[1] - window.padding[1];
            for (int64_t j = 0; j < out_width; ++j) {
              const int64_t column = j * window.stride[1] + shift;
              if (column < 0 || column >= width) continue;
              const float found = ToFloat(x[row * width + column]);
              const bool better = found > largest[j] || place[j] < 0 || found != found;
              largest[j] = better ? found : largest[j];
              place[j] = better ? row * width + column : place[j];
            }
          }
        }
        const T* grad = grads + (plane * out_height + i) * out_width;
        for (int64_t j = 0; j < out_width; ++j)
          if (place[j] >= 0) sums[place[j]] += ToFloat(grad[j]);
      }
      for (int64_t i = 0; i < height * width; ++i) Store(out + plane * height * width + i, sums[i]);
    }
  });
  return ffi::Error::Success();
}

ffi::Error MaxPoolBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer input,
                           ffi::Result<ffi::AnyBuffer> result, ffi::Span<const int64_t> window) {
  if (window.size() != 8) return ffi::Error::InvalidArgument("max_pool2d: 8 numbers make a window");
  Window made;
  for (int axis = 0; axis < 2; ++axis) {
    made.size[axis] = window[axis], made.stride[axis] = window[2 + axis];
    made.padding[axis] = window[4 + axis], made.dilation[axis] = window[6 + axis];
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
