// Convolutions and their gradients, by ATen, which has oneDNN's.
//
// XLA's threads share the images of a batch: each computes with those of its part, on XLA's buffers
// where they lie. The gradients of weights and bias are added up over the parts, in their order.
// Products are computed in f32 unless the processor has instructions for bf16: without AVX512, oneDNN
// takes fifty times as long for bf16.

#include <array>
#include <exception>
#include <optional>
#include <string>
#include <vector>

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/convolution.h>
#include <ATen/ops/convolution_backward.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/sum.h>

#include "aten.h"
#include "memory.h"

namespace ffi = xla::ffi;

namespace {

// Each part of a batch has gradients of weights of its own. This is what they may take together.
constexpr size_t kPartialSums = 128 << 20;

using Sizes = ffi::Span<const int64_t>;

struct Geometry {
  std::vector<int64_t> stride, padding, dilation, output_padding;
  bool transposed;
  int64_t groups;

  Geometry(const at::Tensor& weight, Sizes stride, Sizes padding, Sizes dilation,
           Sizes output_padding, bool transposed, int64_t groups)
      : stride(stride.begin(), stride.end()),
        padding(padding.begin(), padding.end()),
        dilation(dilation.begin(), dilation.end()),
        output_padding(output_padding.begin(), output_padding.end()),
        transposed(transposed),
        groups(groups) {
    // In one thread, ATen leaves a convolution with one weight per channel to oneDNN, which takes
    // half as long, only if it has strides or dilations. Here dilations change no number.
    const bool is_product = weight.numel() == weight.size(0) * weight.size(1);
    if (is_product && !transposed && at::globalContext().userEnabledMkldnn())
      for (int64_t& each : this->dilation) each = 2;
  }
};

// A tensor in the type in which it is multiplied.
at::Tensor Factor(const at::Tensor& tensor) {
#ifdef __AVX512BF16__
  if (tensor.scalar_type() == at::kBFloat16) return tensor;
#endif
  return InF32(tensor);
}

at::Tensor Whole(ffi::AnyBuffer buffer) {
  const auto sizes = buffer.dimensions();
  return at::from_blob(buffer.untyped_data(), at::IntArrayRef(sizes.begin(), sizes.size()),
                       at::TensorOptions(TypeOf(buffer)));
}

// Parts of a batch, one for each thread; a single one if ATen's threads are to divide the work.
struct Parts {
  int64_t images, count;

  Parts(const ffi::ThreadPool& pool, int64_t images)
      : images(images), count(images < pool.num_threads() ? 1 : pool.num_threads()) {}

  at::Tensor operator()(const at::Tensor& batch, int64_t i) const {
    const int64_t begin = i * images / count;
    return batch.narrow(0, begin, (i + 1) * images / count - begin);
  }
};

// Operands: images [N, C, …], weights, [bias]. Result: [N, D, …].
ffi::Error Convolution(ffi::ThreadPool pool, ffi::AnyBuffer images, ffi::AnyBuffer weights,
                       ffi::RemainingArgs rest, ffi::Result<ffi::AnyBuffer> result, Sizes stride,
                       Sizes padding, Sizes dilation, Sizes output_padding, bool transposed,
                       int64_t groups) try {
  const at::Tensor x = Whole(images), weight = Factor(Whole(weights)), out = Whole(*result);
  const Geometry geometry(weight, stride, padding, dilation, output_padding, transposed, groups);
  std::optional<at::Tensor> bias;
  if (rest.size() > 0) bias = Factor(Whole(*rest.get<ffi::AnyBuffer>(0)));
  PrepareResult(result->untyped_data(), result->size_bytes());
  const Parts part(pool, x.size(0));
  return OnThreads(pool, "convolution", part.count, [&](int64_t i) {
    part(out, i).copy_(at::convolution(Factor(part(x, i)), weight, bias, geometry.stride,
                                       geometry.padding, geometry.dilation, geometry.transposed,
                                       geometry.output_padding, geometry.groups));
  });
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("convolution: ") + error.what());
}

// Operands: gradient, images, weights. Results: those gradients of images, weights and bias that are
// wanted.
ffi::Error ConvolutionBackward(ffi::ThreadPool pool, ffi::AnyBuffer gradient, ffi::AnyBuffer images,
                               ffi::AnyBuffer weights, ffi::RemainingRets results, Sizes stride,
                               Sizes padding, Sizes dilation, Sizes output_padding,
                               bool transposed, int64_t groups, bool of_images, bool of_weights,
                               bool of_bias) try {
  const at::Tensor grad = Whole(gradient), x = Whole(images), weight = Factor(Whole(weights));
  const Geometry geometry(weight, stride, padding, dilation, output_padding, transposed, groups);
  const std::array<bool, 3> wanted{of_images, of_weights, of_bias};
  std::array<at::Tensor, 3> found;
  for (size_t i = 0, next = 0; i < 3; ++i) {
    if (!wanted[i]) continue;
    auto result = *results.get<ffi::AnyBuffer>(next++);
    PrepareResult(result->untyped_data(), result->size_bytes());
    found[i] = Whole(*result);
  }
  Parts part(pool, x.size(0));
  if (part.count * weight.nbytes() > kPartialSums) part.count = 1;
  std::vector<int64_t> but_channels{0};
  for (int64_t i = 2; i < grad.dim(); ++i) but_channels.push_back(i);
  std::vector<std::array<at::Tensor, 3>> sums(part.count);
  auto failure = OnThreads(pool, "convolution", part.count, [&](int64_t i) {
    const at::Tensor given = Factor(part(grad, i));
    auto [dx, dw, _] = at::convolution_backward(
        given, Factor(part(x, i)), weight, at::OptionalIntArrayRef(), geometry.stride, geometry.padding,
        geometry.dilation, geometry.transposed, geometry.output_padding, geometry.groups,
        {of_images, of_weights, false});
    if (of_images) part(found[0], i).copy_(dx);
    // oneDNN adds up all numbers of a channel in a row; ATen's sum has smaller errors.
    sums[i] = {at::Tensor(), of_weights ? InF32(dw) : dw,
               of_bias ? given.sum(but_channels, false, at::kFloat) : at::Tensor()};
  });
  if (failure.failure()) return failure;
  c10::InferenceMode guard;
  OneThread one;
  for (size_t i = 1; i < 3; ++i) {
    if (!wanted[i]) continue;
    for (int64_t j = 1; j < part.count; ++j) sums[0][i].add_(sums[j][i]);
    found[i].copy_(sums[0][i]);
  }
  return ffi::Error::Success();
} catch (const std::exception& error) {
  return ffi::Error::Internal(std::string("convolution: ") + error.what());
}

}  // namespace

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_convolution, Convolution,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingArgs()
                                  .Ret<ffi::AnyBuffer>()
                                  .Attr<Sizes>("stride")
                                  .Attr<Sizes>("padding")
                                  .Attr<Sizes>("dilation")
                                  .Attr<Sizes>("output_padding")
                                  .Attr<bool>("transposed")
                                  .Attr<int64_t>("groups"));

XLA_FFI_DEFINE_HANDLER_SYMBOL(cpu_kernels_convolution_backward, ConvolutionBackward,
                              ffi::Ffi::Bind()
                                  .Ctx<ffi::ThreadPool>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .Arg<ffi::AnyBuffer>()
                                  .RemainingRets()
                                  .Attr<Sizes>("stride")
                                  .Attr<Sizes>("padding")
                                  .Attr<Sizes>("dilation")
                                  .Attr<Sizes>("output_padding")
                                  .Attr<bool>("transposed")
                                  .Attr<int64_t>("groups")
                                  .Attr<bool>("of_images")
                                  .Attr<bool>("of_weights")
                                  .Attr<bool>("of_bias"));
