// The gradients of group_norm and layer_norm.

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

constexpr int64_t kRows = 32;  // whose gradients of weights are added up together, in f32

// With n = (x - mean) * rstd and s the mean over a row, the gradient of x is as above. Those of weight
// and bias are sums over rows: of blocks of them, and then over these in their order, so that they
// depend on no number of threads.
template <typename T>
void LayerNormBackward(ffi::ThreadPool& pool, const T* grad, const T* x, const T* weight,
                       const float* mean, const float* rstd, T* of_x, T* of_weight, T* of_bias,
                       int64_t rows, int64_t size) {
  std::vector<float> factors(size);
  for (int64_t j = 0; j < size; ++j) factors[j] = ToFloat(weight[j]);
  // At most as many blocks as would take 16 MB, each of whole rows.
  const int64_t most = std::max<int64_t>(1, (int64_t{2} << 20) / size);
  const int64_t each = std::max(kRows, (rows + most - 1) / most);
  const int64_t blocks = (rows + each - 1) / each;
  std::vector<float> sums(blocks * 2 * size);
  Parallel(pool, blocks, Grain(8 * each * size), [&](int64_t begin, int64_t end) {
    for (int64_t block = begin; block < end; ++block) {
      float* weights = sums.data() + block * 2 * size;
      float* biases = weights + size;
      for (int64_t row = block * each; row < std::min(rows, (block + 1) * each); ++row) {
        const T* g = grad + row * size;
        const T* in = x + row * size;
        T* out = of_x + row * size;
        const float middle = mean[row], scale = rstd[row];
        double all_plain = 0, all_product = 0;
        for (int64_t start = 0; start < size; start += kBlock) {
          const int64_t stop = std::min(size, start + kBlock);
          float plain = 0, product = 0;
#pragma omp simd reduction(+ : plain, product)
          for (int64_t j = start; j < stop; ++j) {
            const float given = ToFloat(g[j]), normal = (ToFloat(in[j]) - middle) * scale;
            weights[j] += given * normal;
            biases[j] += given;
            plain += given * factors[j];
            product += given * factors[j] * normal;
          }
          all_plain += plain, all_product += product;
        }
        const float of_mean = static_cast<float>(all_plain / size);
        const float of_scale = static_cast<float>(all_product / size);
#pragma omp simd
        for (int64_t j = 0; j < size; ++j) {
          const float normal = (ToFloat(in[j]) - middle) * scale;
          Store(out + j, scale * (ToFloat(g[j]) * factors[j] - of_mean - normal * of_scale));
        }
      }
    }
  });
  for (int64_t j = 0; j < size; ++j) {
    double of_scales = 0, of_shifts = 0;
    for (int64_t block = 0; block < blocks; ++block) {
      of_scales += sums[block * 2 * size + j];
      of_shifts += sums[(block * 2 + 1) * size + j];
    }
    Store(of_weight + j, static_cast<float>(of_scales));
    Store(of_bias + j, static_cast<float>(of_shifts));
  }
}

ffi::Error LayerNorm(ffi::ThreadPool pool, ffi::AnyBuffer grad, ffi::AnyBuffer x,
                     ffi::AnyBuffer weight, ffi::AnyBuffer mean, ffi::AnyBuffer rstd,
                     ffi::Result<ffi::AnyBuffer> of_x, ffi::Result<ffi::AnyBuffer> of_weight,
                     ffi::Result<ffi::AnyBuffer> of_bias) {
  PrepareResult(of_x->untyped_data(), of_x->size_bytes());
  const int64_t size = weight.element_count(), rows = x.element_count() / size;
  return ForFloats(x.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    auto at = [](ffi::AnyBuffer buffer) { return static_cast<T*>(buffer.untyped_data()); };
    LayerNormBackward<T>(pool, at(grad), at(x), at(weight), mean.typed_data<float>(),
                         rstd.typed_data<float>(), at(*of_x), at(*of_weight), at(*of_bias), rows,
                         size);
    return ffi::Error::Success();
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_layer_norm_backward, LayerNorm,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>());

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
