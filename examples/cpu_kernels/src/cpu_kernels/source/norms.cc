// The gradient of group_norm.

#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBlock = 4096;  // so many numbers are added in f32 before they go to f64

struct Sums {
  double grad = 0, product = 0;  // of grad, and of grad * (x - mean)
};

template <typename T>
Sums SumsOf(const T* grad, const T* x, int64_t size, float mean) {
  Sums total;
  for (int64_t start = 0; start < size; start += kBlock) {
    const int64_t end = std::min(size, start + kBlock);
    float plain = 0, product = 0;
#pragma omp simd reduction(+ : plain, product)
    for (int64_t i = start; i < end; ++i) {
      const float g = ToFloat(grad[i]);
      plain += g;
      product += g * (ToFloat(x[i]) - mean);
    }
    total.grad += plain, total.product += product;
  }
  return total;
}

// With n = (x - mean) * rstd and s the mean over a group:
//   of x: rstd * (grad * weight - s(grad * weight) - n * s(grad * weight * n))
template <typename T>
void GroupNormBackward(ffi::ThreadPool& pool, const T* grad, const T* x, const T* weight,
                       const T* mean, const T* rstd, T* of_x, T* of_weight, T* of_bias,
                       int64_t batch, int64_t channels, int64_t size, int64_t groups) {
  const int64_t each = channels / groups;
  std::vector<Sums> sums(batch * channels);
  Parallel(pool, batch * groups, Grain(8 * each * size), [&](int64_t begin, int64_t end) {
    for (int64_t group = begin; group < end; ++group) {
      const float middle = ToFloat(mean[group]), scale = ToFloat(rstd[group]);
      const int64_t first = group / groups * channels + group % groups * each;
      double plain = 0, product = 0;
      for (int64_t c = first; c < first + each; ++c) {
        sums[c] = SumsOf(grad + c * size, x + c * size, size, middle);
        const double factor = ToFloat(weight[c % channels]);
        plain += factor * sums[c].grad, product += factor * sums[c].product;
      }
      const double count = static_cast<double>(each * size);
      const float of_mean = static_cast<float>(scale * plain / count);
      const float of_scale =
          static_cast<float>(double(scale) * scale * scale * product / count);
      for (int64_t c = first; c < first + each; ++c) {
        const float factor = ToFloat(weight[c % channels]) * scale;
        const T* g = grad + c * size;
        const T* in = x + c * size;
        T* out = of_x + c * size;
#pragma omp simd
        for (int64_t i = 0; i < size; ++i)
          Store(out + i, factor * ToFloat(g[i]) - of_mean - of_scale * (ToFloat(in[i]) - middle));
      }
    }
  });
  for (int64_t c = 0; c < channels; ++c) {
    Sums total;
    for (int64_t n = 0; n < batch; ++n) {
      const Sums& found = sums[n * channels + c];
      total.grad += found.grad;
      total.product += found.product * ToFloat(rstd[n * groups + c / each]);
    }
    Store(of_weight + c, static_cast<float>(total.product));
    Store(of_bias + c, static_cast<float>(total.grad));
  }
}

ffi::Error GroupNorm(ffi::ThreadPool pool, ffi::AnyBuffer grad, ffi::AnyBuffer x,
                     ffi::AnyBuffer weight, ffi::AnyBuffer mean, ffi::AnyBuffer rstd,
                     ffi::Result<ffi::AnyBuffer> of_x, ffi::Result<ffi::AnyBuffer> of_weight,
                     ffi::Result<ffi::AnyBuffer> of_bias, int64_t batch, int64_t channels,
                     int64_t size, int64_t groups) {
  PrepareResult(of_x->untyped_data(), of_x->size_bytes());
  return ForFloats(x.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto at = [](ffi::AnyBuffer buffer) { return static_cast<T*>(buffer.untyped_data()); };
    GroupNormBackward<T>(pool, at(grad), at(x), at(weight), at(mean), at(rstd), at(*of_x),
                         at(*of_weight), at(*of_bias), batch, channels, size, groups);
    return ffi::Error::Success();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_group_norm_backward, GroupNorm,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int64_t>("batch")
                                  .Attr<int64_t>("channels")
                                  .Attr<int64_t>("size")
                                  .Attr<int64_t>("groups"));
