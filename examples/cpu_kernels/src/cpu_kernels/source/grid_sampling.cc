// Sampling of images [N, C, H, W] at the points of a grid [N, h, w, 2], and its gradients.
//
// A block of points is turned into taps first: pixels and their weights. Then the taps are followed
// through all channels. The coordinate arithmetic is that of the decomposition, which is PyTorch's
// (aten/src/ATen/native/GridSamplerUtils.h).

#include <cmath>
#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kBlock = 256;     // points whose taps are known at a time
constexpr int64_t kChannels = 16;   // that share taps when they add to the gradient of an image
enum Interpolation { kBilinear, kNearest, kBicubic };
enum Padding { kZeros, kBorder, kReflection };

// How coordinates along one axis become pixels.
struct Axis {
  int64_t size;
  Padding padding;
  bool align_corners;

  // The derivative of a place in pixels.
  float Scale() const { return align_corners ? (size - 1) / 2.0f : size / 2.0f; }

  // In pixels. With align_corners, -1 and 1 are the centres of the outermost pixels; without it, they
  // are their outer edges.
  float Place(float coordinate) const {
    if (align_corners) return (coordinate + 1) * ((size - 1) / 2.0f);
    return ((coordinate + 1) * size - 1) / 2;
  }

  // Moves a place into the image, and multiplies `slope` by the derivative of this.
  float Padded(float place, float* slope) const {
    if (padding == kZeros) return place;
    if (padding == kReflection) place = Reflected(place, slope);
    // Exactly at the border, PyTorch's derivative is zero too.
    if (!(place > 0 && place < size - 1)) *slope = 0;
    if (place != place) return 0;
    return std::min(std::max(place, 0.0f), static_cast<float>(size - 1));
  }

  // As often as needed: at the outermost centres with align_corners, else at the edges.
  float Reflected(float place, float* slope) const {
    const float low = align_corners ? 0.0f : -0.5f;
    const float span = static_cast<float>(align_corners ? size - 1 : size);
    if (span == 0) return *slope = 0;
    float distance = place - low;
    if (distance < 0) *slope = -*slope;
    distance = std::fabs(distance);
    if (distance < span) return distance + low;
    const float flips = std::floor(distance / span), extra = std::fmod(distance, span);
    if (std::fmod(flips, 2.0f) == 0) return extra + low;
    *slope = -*slope;
    return (span - extra) + low;
  }
};

// Keys' kernel of cubic convolution, with PyTorch's A = -0.75, inside and outside of 1, and their
// derivatives.
constexpr float kA = -0.75f;
inline float Inner(float x) { return ((kA + 2) * x - (kA + 3)) * x * x + 1; }
inline float Outer(float x) { return ((kA * x - 5 * kA) * x + 8 * kA) * x - 4 * kA; }
inline float InnerSlope(float x) { return (3 * (kA + 2) * x - 2 * (kA + 3)) * x; }
inline float OuterSlope(float x) { return (3 * kA * x - 10 * kA) * x + 8 * kA; }

// The taps of one coordinate. A tap outside the image counts as zero, and has no index.
template <Interpolation mode>
struct Taps {
  static constexpr int kCount = mode == kBilinear ? 2 : mode == kNearest ? 1 : 4;
  int32_t index[kCount];
  bool inside[kCount];
  float weight[kCount], slope[kCount];  // the derivative of the weight by the coordinate

  Taps(const Axis& axis, float coordinate) {
    float place = axis.Place(coordinate), scale = axis.Scale();
    if constexpr (mode == kBicubic) {  // padding moves the taps, so no slope changes
      const float low = std::floor(place), t = place - low;
      const float weights[] = {Outer(t + 1), Inner(t), Inner(1 - t), Outer(2 - t)};
      const float slopes[] = {OuterSlope(t + 1), InnerSlope(t), -InnerSlope(1 - t),
                              -OuterSlope(2 - t)};
      for (int k = 0; k < 4; ++k) {
        float unused = 1;
        Set(k, axis, axis.Padded(low + (k - 1), &unused), weights[k], slopes[k] * scale);
      }
    } else if constexpr (mode == kNearest) {
      Set(0, axis, std::nearbyint(axis.Padded(place, &scale)), 1, 0);
    } else {
      place = axis.Padded(place, &scale);
      const float low = std::floor(place), t = place - low;
      Set(0, axis, low, 1 - t, -scale);
      Set(1, axis, low + 1, t, scale);
    }
  }

  void Set(int k, const Axis& axis, float place, float weight_, float slope_) {
    inside[k] = place >= 0 && place <= axis.size - 1;
    index[k] = inside[k] ? static_cast<int32_t>(place) : 0;
    weight[k] = weight_, slope[k] = slope_;
  }
};

// The taps of a block of points, over rows and columns. Those outside the image read the pixel 0, and
// `kept` has no bits for them.
template <Interpolation mode>
struct Block {
  static constexpr int kSide = Taps<mode>::kCount, kCount = kSide * kSide;
  int64_t points;
  int32_t pixel[kCount][kBlock];
  uint32_t kept[kCount][kBlock];
  float weight[kCount][kBlock], by_x[kCount][kBlock], by_y[kCount][kBlock];

  template <typename T>
  Block(const Axis& rows, const Axis& columns, const T* grid, int64_t points) : points(points) {
    for (int64_t i = 0; i < points; ++i) {
      const Taps<mode> column(columns, ToFloat(grid[2 * i]));
      const Taps<mode> row(rows, ToFloat(grid[2 * i + 1]));
      for (int r = 0; r < kSide; ++r) {
        for (int c = 0; c < kSide; ++c) {
          const int k = r * kSide + c;
          const bool inside = row.inside[r] && column.inside[c];
          pixel[k][i] =
              inside ? row.index[r] * static_cast<int32_t>(columns.size) + column.index[c] : 0;
          kept[k][i] = inside ? ~0u : 0u;
          weight[k][i] = row.weight[r] * column.weight[c];
          by_x[k][i] = row.weight[r] * column.slope[c];
          by_y[k][i] = row.slope[r] * column.weight[c];
        }
      }
    }
  }

  // A selection by bits, because zero times a pixel that is not a number is not zero.
  template <typename T>
  float Value(const T* plane, int k, int64_t i) const {
    const float found = ToFloat(plane[pixel[k][i]]);
    uint32_t bits;
    std::memcpy(&bits, &found, sizeof bits);
    bits &= kept[k][i];
    float value;
    std::memcpy(&value, &bits, sizeof value);
    return value;
  }
};

// The sizes of a call, and its blocks of points.
struct Call {
  int64_t batch, channels, pixels, points, blocks;
  Axis rows, columns;

  Call(ffi::AnyBuffer image, ffi::AnyBuffer grid, int64_t padding, bool align_corners) {
    const auto from = image.dimensions(), to = grid.dimensions();
    batch = from[0], channels = from[1], pixels = from[2] * from[3], points = to[1] * to[2];
    blocks = (points + kBlock - 1) / kBlock;
    rows = {from[2], static_cast<Padding>(padding), align_corners};
    columns = {from[3], static_cast<Padding>(padding), align_corners};
  }

  template <Interpolation mode, typename T>
  Block<mode> Taken(const T* grid, int64_t n, int64_t block) const {
    const int64_t first = block * kBlock;
    return Block<mode>(rows, columns, grid + 2 * (n * points + first),
                       std::min(kBlock, points - first));
  }
};

template <Interpolation mode, typename T>
void Forward(ffi::ThreadPool& pool, const Call& call, const T* image, const T* grid, T* out) {
  using Taken = Block<mode>;
  const int64_t cost = kBlock * (32 + call.channels) * Taken::kCount;
  Parallel(pool, call.batch * call.blocks, Grain(cost), [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      const int64_t n = part / call.blocks, block = part % call.blocks;
      const Taken taps = call.Taken<mode>(grid, n, block);
      for (int64_t c = n * call.channels; c < (n + 1) * call.channels; ++c) {
        const T* plane = image + c * call.pixels;
        T* row = out + c * call.points + block * kBlock;
#pragma omp simd
        for (int64_t i = 0; i < taps.points; ++i) {
          float sum = 0;
          for (int k = 0; k < Taken::kCount; ++k) sum += taps.weight[k][i] * taps.Value(plane, k, i);
          Store(row + i, sum);
        }
      }
    }
  });
}

// The points share the work: each has a gradient of its own.
template <Interpolation mode, typename T>
void OfGrid(ffi::ThreadPool& pool, const Call& call, const T* grads, const T* image, const T* grid,
            T* out) {
  using Taken = Block<mode>;
  const int64_t cost = kBlock * (32 + 2 * call.channels) * Taken::kCount;
  Parallel(pool, call.batch * call.blocks, Grain(cost), [&](int64_t begin, int64_t end) {
    float along[Taken::kCount][kBlock];
    for (int64_t part = begin; part < end; ++part) {
      const int64_t n = part / call.blocks, block = part % call.blocks;
      const Taken taps = call.Taken<mode>(grid, n, block);
      std::memset(along, 0, sizeof along);
      for (int64_t c = n * call.channels; c < (n + 1) * call.channels; ++c) {
        const T* plane = image + c * call.pixels;
        const T* grad = grads + c * call.points + block * kBlock;
        for (int k = 0; k < Taken::kCount; ++k) {
#pragma omp simd
          for (int64_t i = 0; i < taps.points; ++i)
            along[k][i] += taps.Value(plane, k, i) * ToFloat(grad[i]);
        }
      }
      T* row = out + 2 * (n * call.points + block * kBlock);
      for (int64_t i = 0; i < taps.points; ++i) {
        float x = 0, y = 0;
        for (int k = 0; k < Taken::kCount; ++k) {
          x += along[k][i] * taps.by_x[k][i];
          y += along[k][i] * taps.by_y[k][i];
        }
        Store(row + 2 * i, x);
        Store(row + 2 * i + 1, y);
      }
    }
  });
}

// The channels share the work: each adds to a plane of its own, point by point.
template <Interpolation mode, typename T>
void OfImage(ffi::ThreadPool& pool, const Call& call, const T* grads, const T* grid, T* out) {
  using Taken = Block<mode>;
  const int64_t threads = std::max<int64_t>(pool.num_threads(), 1);
  const int64_t fair = (call.batch * call.channels + threads - 1) / threads;
  const int64_t together = std::min({fair, kChannels, call.channels});
  const int64_t groups = (call.channels + together - 1) / together;
  const int64_t cost = call.points * (32 + together) * Taken::kCount + together * call.pixels;
  Parallel(pool, call.batch * groups, Grain(cost), [&](int64_t begin, int64_t end) {
    std::vector<float> sums;
    for (int64_t part = begin; part < end; ++part) {
      const int64_t n = part / groups, first = part % groups * together;
      const int64_t count = std::min(together, call.channels - first);
      const int64_t channel = n * call.channels + first, numbers = count * call.pixels;
      float* planes;
      if constexpr (std::is_same_v<T, float>) {
        planes = out + channel * call.pixels;
        std::memset(planes, 0, numbers * sizeof(float));
      } else {
        sums.assign(numbers, 0.0f);
        planes = sums.data();
      }
      for (int64_t block = 0; block < call.blocks; ++block) {
        const Taken taps = call.Taken<mode>(grid, n, block);
        for (int64_t c = 0; c < count; ++c) {
          float* plane = planes + c * call.pixels;
          const T* grad = grads + (channel + c) * call.points + block * kBlock;
          for (int64_t i = 0; i < taps.points; ++i) {
            const float given = ToFloat(grad[i]);
            for (int k = 0; k < Taken::kCount; ++k)
              if (taps.kept[k][i]) plane[taps.pixel[k][i]] += taps.weight[k][i] * given;
          }
        }
      }
      if constexpr (!std::is_same_v<T, float>) {
        T* target = out + channel * call.pixels;
#pragma omp simd
        for (int64_t i = 0; i < numbers; ++i) Store(target + i, planes[i]);
      }
    }
  });
}

// Calls f with a constant that holds the interpolation.
template <typename F>
ffi::Error ForInterpolations(int64_t mode, const F& f) {
  switch (mode) {
    case kBilinear:
      f(std::integral_constant<Interpolation, kBilinear>());
      break;
    case kNearest:
      f(std::integral_constant<Interpolation, kNearest>());
      break;
    case kBicubic:
      f(std::integral_constant<Interpolation, kBicubic>());
      break;
    default:
      return ffi::Error::InvalidArgument("grid sampling has no interpolation of this number");
  }
  return ffi::Error::Success();
}

ffi::Error GridSampler(ffi::ThreadPool pool, ffi::AnyBuffer image, ffi::AnyBuffer grid,
                       ffi::Result<ffi::AnyBuffer> result, int64_t interpolation, int64_t padding,
                       bool align_corners) {
  const Call call(image, grid, padding, align_corners);
  PrepareResult(result->untyped_data(), result->size_bytes());
  return ForFloats(image.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return ForInterpolations(interpolation, [&](auto mode) {
      Forward<decltype(mode)::value, T>(
          pool, call, static_cast<const T*>(image.untyped_data()),
          static_cast<const T*>(grid.untyped_data()), static_cast<T*>(result->untyped_data()));
    });
  });
}

// The gradient of the image is zero where `of_image` is false.
ffi::Error GridSamplerBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer image,
                               ffi::AnyBuffer grid, ffi::Result<ffi::AnyBuffer> image_result,
                               ffi::Result<ffi::AnyBuffer> grid_result, int64_t interpolation,
                               int64_t padding, bool align_corners, bool of_image) {
  const Call call(image, grid, padding, align_corners);
  PrepareResult(image_result->untyped_data(), image_result->size_bytes());
  return ForFloats(image.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* grads = static_cast<const T*>(gradient.untyped_data());
    const T* pixels = static_cast<const T*>(image.untyped_data());
    const T* points = static_cast<const T*>(grid.untyped_data());
    T* for_image = static_cast<T*>(image_result->untyped_data());
    T* for_grid = static_cast<T*>(grid_result->untyped_data());
    if (!of_image) std::memset(static_cast<void*>(for_image), 0, image_result->size_bytes());
    if (interpolation == kNearest)  // which jumps, and has no slope
      std::memset(static_cast<void*>(for_grid), 0, grid_result->size_bytes());
    return ForInterpolations(interpolation, [&](auto mode) {
      constexpr Interpolation kMode = decltype(mode)::value;
      if (of_image) OfImage<kMode, T>(pool, call, grads, points, for_image);
      if constexpr (kMode != kNearest)
        OfGrid<kMode, T>(pool, call, grads, pixels, points, for_grid);
    });
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_grid_sampler, GridSampler,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int64_t>("interpolation")
                                  .Attr<int64_t>("padding")
                                  .Attr<bool>("align_corners"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_grid_sampler_backward, GridSamplerBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int64_t>("interpolation")
                                  .Attr<int64_t>("padding")
                                  .Attr<bool>("align_corners")
                                  .Attr<bool>("of_image"));
