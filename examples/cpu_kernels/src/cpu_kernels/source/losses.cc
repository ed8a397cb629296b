// Cross entropy of [N, C] logits and [N] classes, and its gradient.

#include <cmath>
#include <string>
#include <vector>

#include "memory.h"
#include "numbers.h"
#include "parallel.h"

namespace ffi = xla::ffi;

namespace {

constexpr int64_t kMean = 1;
constexpr int64_t kBlock = 2048;  // of SumOf

template <typename T>
float Maximum(const T* row, int64_t classes) {
  float largest = -std::numeric_limits<float>::infinity();
#pragma omp simd reduction(max : largest)
  for (int64_t j = 0; j < classes; ++j) {
    float x = ToFloat(row[j]);
    largest = x > largest ? x : largest;
  }
  return largest;
}

// The sum of exp(x - largest). A row with NaN has the sum NaN.
template <typename T>
double SumOfExponentials(const T* row, int64_t classes, float largest) {
  return SumOf(classes, kBlock, [=](int64_t j) { return Exp(ToFloat(row[j]) - largest); });
}

// The sum of weight * (x - largest); all weights are 1 without some.
template <typename T>
double WeightedSum(const T* row, const float* weights, int64_t classes, float largest) {
  if (weights == nullptr) {
    return SumOf(classes, kBlock, [=](int64_t j) { return ToFloat(row[j]) - largest; });
  }
  return SumOf(classes, kBlock,
               [=](int64_t j) { return weights[j] * (ToFloat(row[j]) - largest); });
}

// Writes value(j) to each element of a row from `begin` to `end`.
template <typename T, typename F>
void Write(T* row, int64_t begin, int64_t end, const F& value) {
#pragma omp simd
  for (int64_t j = begin; j < end; ++j) Store(row + j, value(j));
}

// Writes value(j) to each element of a row, which is a part of a large result or not. Of a large
// one, each line is computed and streamed alone, so that the next is computed while it is on its
// way: blocks of many lines take a third longer.
template <typename T, typename F>
void Fill(T* row, int64_t classes, bool large, const F& value) {
  if (!large) return Write(row, 0, classes, value);
  constexpr int64_t kCount = kLine / sizeof(T);
  const auto from_line = reinterpret_cast<uintptr_t>(row) % kLine;
  int64_t j = std::min<int64_t>(classes, (kLine - from_line) % kLine / sizeof(T));
  Write(row, 0, j, value);
  for (; j + kCount <= classes; j += kCount) {
    alignas(kLine) T line[kCount];
#pragma omp simd
    for (int64_t k = 0; k < kCount; ++k) Store(line + k, value(j + k));
    StreamLine(row + j, line);
  }
  Write(row, j, classes, value);
}

// What both directions share of a call.
struct Call {
  const int64_t* labels;
  const float* weights;  // null without
  int64_t rows, classes, reduction, ignored;
  float smoothing;
  double of_rows = 0;  // what the mean divides by: the weights of the labels
  double all_weights = 0;

  float Weight(int64_t row) const { return weights == nullptr ? 1.0f : weights[labels[row]]; }
  bool Ignored(int64_t row) const { return labels[row] == ignored; }

  // The step that fails finds the kernel by the target's name.
  ffi::Error Check(const std::string& target) {
    for (int64_t i = 0; i < rows; ++i) {
      if (Ignored(i)) continue;
      if (labels[i] < 0 || labels[i] >= classes) {
        return ffi::Error::InvalidArgument(
            target + ": label " + std::to_string(labels[i]) + " of row " + std::to_string(i) +
            " is neither in 0.." + std::to_string(classes - 1) + " nor ignore_index = " +
            std::to_string(ignored));
      }
      of_rows += Weight(i);
    }
    if (weights == nullptr) {
      all_weights = static_cast<double>(classes);
    } else {
      for (int64_t j = 0; j < classes; ++j) all_weights += weights[j];
    }
    return ffi::Error::Success();
  }
};

Call MakeCall(ffi::AnyBuffer logits, ffi::Buffer<ffi::S64> labels, ffi::RemainingArgs& rest,
              size_t weight_at, bool weighted, int64_t reduction, int64_t ignored,
              float smoothing) {
  Call call{labels.typed_data(), nullptr,   logits.dimensions()[0], logits.dimensions()[1],
            reduction,           ignored,   smoothing};
  if (weighted) call.weights = rest.get<ffi::Buffer<ffi::F32>>(weight_at)->typed_data();
  return call;
}

template <typename T>
ffi::Error Forward(ffi::ThreadPool& pool, const Call& call, const T* logits, T* loss,
                   float* maxima, float* log_sums) {
  std::vector<double> losses(call.rows), smooth(call.rows);
  const bool smoothed = call.smoothing != 0;
  Parallel(pool, call.rows, Grain(4 * call.classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = logits + i * call.classes;
      const float largest = Maximum(row, call.classes);
      const double log_sum = std::log(SumOfExponentials(row, call.classes, largest));
      maxima[i] = largest;
      log_sums[i] = static_cast<float>(log_sum);
      if (call.Ignored(i)) continue;  // what the row holds does not count
      const double shifted = static_cast<double>(ToFloat(row[call.labels[i]])) - largest;
      losses[i] = (log_sum - shifted) * call.Weight(i);
      if (smoothed) {
        smooth[i] = call.all_weights * log_sum -
                    WeightedSum(row, call.weights, call.classes, largest);
      }
    }
  });
  const double kept = 1.0 - call.smoothing, spread = call.smoothing / double(call.classes);
  if (call.reduction == 0) {
    for (int64_t i = 0; i < call.rows; ++i) {
      const double mixed = smoothed ? kept * losses[i] + spread * smooth[i] : losses[i];
      Store(loss + i, static_cast<float>(mixed));
    }
    return ffi::Error::Success();
  }
  double total = 0, total_smooth = 0;
  for (int64_t i = 0; i < call.rows; ++i) total += losses[i], total_smooth += smooth[i];
  if (call.reduction == kMean) total /= call.of_rows, total_smooth /= call.of_rows;
  Store(loss, static_cast<float>(smoothed ? kept * total + spread * total_smooth : total));
  return ffi::Error::Success();
}

template <typename T>
ffi::Error Backward(ffi::ThreadPool& pool, const Call& call, const T* grads, const T* logits,
                    const float* maxima, const float* log_sums, T* result) {
  const bool mean = call.reduction == kMean, each = call.reduction == 0;
  const float kept = 1.0f - call.smoothing;
  const float divisor = mean ? static_cast<float>(call.of_rows) : 1.0f;
  // In place, a block is in the caches already.
  const bool large = result != logits && call.rows * call.classes * sizeof(T) >= kLarge;
  Parallel(pool, call.rows, Grain(4 * call.classes), [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const T* row = logits + i * call.classes;
      T* out = result + i * call.classes;
      if (call.Ignored(i)) {  // also where the mean of no row is not a number
        std::memset(static_cast<void*>(out), 0, call.classes * sizeof(T));
        continue;
      }
      const float grad = ToFloat(grads[each ? i : 0]);
      const float factor = kept * call.Weight(i) * (grad / divisor);
      const float smooth = call.smoothing / static_cast<float>(call.classes) * (grad / divisor);
      const float total = factor + smooth * static_cast<float>(call.all_weights);
      const float largest = maxima[i], log_sum = log_sums[i];
      const int64_t label = call.labels[i];
      const float log = (ToFloat(row[label]) - largest) - log_sum;  // before `out` is written
      const auto probability = [=](int64_t j) {
        return Exp((ToFloat(row[j]) - largest) - log_sum);
      };
      if (call.smoothing == 0) {
        Fill(out, call.classes, large, [=](int64_t j) { return probability(j) * factor; });
      } else if (call.weights == nullptr) {
        Fill(out, call.classes, large, [=](int64_t j) { return probability(j) * total - smooth; });
      } else {
        const float* weights = call.weights;
        Fill(out, call.classes, large,
             [=](int64_t j) { return probability(j) * total - smooth * weights[j]; });
      }
      float of_label = factor * std::expm1(log);  // precise where the probability is nearly 1
      if (call.smoothing != 0) {
        const float weight = call.weights == nullptr ? 1.0f : call.weights[label];
        of_label += (total - factor) * std::exp(log) - smooth * weight;
      }
      Store(out + label, of_label);
    }
    FinishStreams();
  });
  return ffi::Error::Success();
}

ffi::Error CrossEntropy(ffi::ThreadPool pool, ffi::AnyBuffer logits,
                        ffi::Buffer<ffi::S64> labels, ffi::RemainingArgs rest,
                        ffi::Result<ffi::AnyBuffer> loss, ffi::ResultBuffer<ffi::F32> maxima,
                        ffi::ResultBuffer<ffi::F32> log_sums, int64_t reduction, int64_t ignored,
                        float smoothing) {
  Call call = MakeCall(logits, labels, rest, 0, rest.size() > 0, reduction, ignored, smoothing);
  if (ffi::Error error = call.Check("cpu_kernels_cross_entropy"); error.failure()) return error;
  return ForFloats(logits.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return Forward<T>(pool, call, static_cast<const T*>(logits.untyped_data()),
                      static_cast<T*>(loss->untyped_data()), maxima->typed_data(),
                      log_sums->typed_data());
  });
}

// Operands: gradient, logits, labels, [weights], maxima, logarithms of sums.
ffi::Error CrossEntropyBackward(ffi::ThreadPool pool, ffi::AnyBuffer grad, ffi::AnyBuffer logits,
                                ffi::Buffer<ffi::S64> labels, ffi::RemainingArgs rest,
                                ffi::Result<ffi::AnyBuffer> result, int64_t reduction,
                                int64_t ignored, float smoothing) {
  const bool weighted = rest.size() > 2;
  Call call = MakeCall(logits, labels, rest, 0, weighted, reduction, ignored, smoothing);
  if (ffi::Error error = call.Check("cpu_kernels_cross_entropy_backward"); error.failure())
    return error;
  const float* maxima = rest.get<ffi::Buffer<ffi::F32>>(weighted)->typed_data();
  const float* log_sums = rest.get<ffi::Buffer<ffi::F32>>(weighted + 1)->typed_data();
  PrepareResult(result->untyped_data(), result->size_bytes());
  return ForFloats(logits.element_type(), [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    return Backward<T>(pool, call, static_cast<const T*>(grad.untyped_data()),
                       static_cast<const T*>(logits.untyped_data()), maxima, log_sums,
                       static_cast<T*>(result->untyped_data()));
  });
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_cross_entropy, CrossEntropy,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<int64_t>("reduction")
                                  .Attr<int64_t>("ignore_index")
                                  .Attr<float>("label_smoothing"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_cross_entropy_backward, CrossEntropyBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::Buffer<ffi::S64>>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<int64_t>("reduction")
                                  .Attr<int64_t>("ignore_index")
                                  .Attr<float>("label_smoothing"));
