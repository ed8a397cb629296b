// gelu and softmax with their backwards on the CPU, as handlers of XLA's typed FFI.
//
// Each takes the operands and attributes of the composite of the same name, so that a custom call
// made by to_custom_call fits. `composites_calls(NAME)` says how often one ran.

#include <algorithm>
#include <atomic>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <type_traits>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Input = ffi::Buffer<ffi::F32>;
using Output = ffi::ResultBuffer<ffi::F32>;

namespace {

std::atomic<int64_t> gelu_calls, gelu_backward_calls, softmax_calls, softmax_backward_calls;

constexpr float kSqrtHalf = 0.70710678f;       // 1 / sqrt(2)
constexpr float kInverseSqrt2Pi = 0.39894228f; // 1 / sqrt(2 pi)
constexpr float kTanhScale = 0.79788456f;      // sqrt(2 / pi)
constexpr float kTanhCubic = 0.044715f;

float GeluErf(float x) { return 0.5f * x * (1.0f + std::erf(x * kSqrtHalf)); }

float GeluErfSlope(float x) {
  float density = kInverseSqrt2Pi * std::exp(-0.5f * x * x);
  return 0.5f * (1.0f + std::erf(x * kSqrtHalf)) + x * density;
}

float GeluTanh(float x) {
  return 0.5f * x * (1.0f + std::tanh(kTanhScale * (x + kTanhCubic * x * x * x)));
}

float GeluTanhSlope(float x) {
  float t = std::tanh(kTanhScale * (x + kTanhCubic * x * x * x));
  float inner = kTanhScale * (1.0f + 3.0f * kTanhCubic * x * x);
  return 0.5f * (1.0f + t) + 0.5f * x * (1.0f - t * t) * inner;
}

ffi::Error Gelu(Input x, Output y, std::string_view approximate) {
  ++gelu_calls;
  const float* in = x.typed_data();
  float* out = y->typed_data();
  const int64_t count = x.element_count();
  if (approximate == "none") {
    for (int64_t i = 0; i < count; ++i) out[i] = GeluErf(in[i]);
  } else if (approximate == "tanh") {
    for (int64_t i = 0; i < count; ++i) out[i] = GeluTanh(in[i]);
  } else {
    return ffi::Error::InvalidArgument("approximate must be none or tanh");
  }
  return ffi::Error::Success();
}

ffi::Error GeluBackward(Input gradient, Input x, Output result, std::string_view approximate) {
  ++gelu_backward_calls;
  const float* d = gradient.typed_data();
  const float* in = x.typed_data();
  float* out = result->typed_data();
  const int64_t count = x.element_count();
  if (approximate == "none") {
    for (int64_t i = 0; i < count; ++i) out[i] = d[i] * GeluErfSlope(in[i]);
  } else if (approximate == "tanh") {
    for (int64_t i = 0; i < count; ++i) out[i] = d[i] * GeluTanhSlope(in[i]);
  } else {
    return ffi::Error::InvalidArgument("approximate must be none or tanh");
  }
  return ffi::Error::Success();
}

// A tensor seen as rows along one dimension: element k of a row is at start + k * stride.
struct Rows {
  int64_t outer = 1, length = 1, stride = 1;

  static bool Along(int64_t dim, Input::Dimensions shape, Rows* rows) {
    if (dim < 0) dim += static_cast<int64_t>(shape.size());  // from the end, as in PyTorch
    if (dim < 0 || dim >= static_cast<int64_t>(shape.size())) return false;
    for (int64_t i = 0; i < static_cast<int64_t>(shape.size()); ++i) {
      if (i < dim) rows->outer *= shape[i];
      if (i == dim) rows->length = shape[i];
      if (i > dim) rows->stride *= shape[i];
    }
    return true;
  }

  // A stride of one is a constant, so that the compiler can use vectors.
  template <typename Function>
  void ForEach(Function function) const {
    if (stride == 1) {
      for (int64_t o = 0; o < outer; ++o) {
        function(o * length, std::integral_constant<int64_t, 1>());
      }
      return;
    }
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t s = 0; s < stride; ++s) function(o * length * stride + s, stride);
    }
  }
};

ffi::Error Softmax(Input x, Output y, int64_t dim) {
  ++softmax_calls;
  Rows rows;
  if (!Rows::Along(dim, x.dimensions(), &rows)) return ffi::Error::InvalidArgument("no such dim");
  const float* in = x.typed_data();
  float* out = y->typed_data();
  rows.ForEach([&](int64_t start, auto stride) {
    float largest = in[start], sum = 0.0f;
    for (int64_t k = 1; k < rows.length; ++k) {
      largest = std::max(largest, in[start + k * stride]);
    }
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t i = start + k * stride;
      sum += out[i] = std::exp(in[i] - largest);
    }
    const float scale = 1.0f / sum;
    for (int64_t k = 0; k < rows.length; ++k) out[start + k * stride] *= scale;
  });
  return ffi::Error::Success();
}

ffi::Error SoftmaxBackward(Input gradient, Input output, Output result, int64_t dim) {
  ++softmax_backward_calls;
  Rows rows;
  if (!Rows::Along(dim, output.dimensions(), &rows)) {
    return ffi::Error::InvalidArgument("no such dim");
  }
  const float* d = gradient.typed_data();
  const float* y = output.typed_data();
  float* out = result->typed_data();
  rows.ForEach([&](int64_t start, auto stride) {
    float sum = 0.0f;
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t i = start + k * stride;
      sum += d[i] * y[i];
    }
    for (int64_t k = 0; k < rows.length; ++k) {
      const int64_t i = start + k * stride;
      out[i] = y[i] * (d[i] - sum);
    }
  });
  return ffi::Error::Success();
}

}  // namespace

#define UNARY ffi::Ffi::Bind().Arg<Input>().Ret<ffi::Buffer<ffi::F32>>()
#define BINARY ffi::Ffi::Bind().Arg<Input>().Arg<Input>().Ret<ffi::Buffer<ffi::F32>>()

XLA_FFI_DEFINE_HANDLER_SYMBOL(gelu, Gelu, UNARY.Attr<std::string_view>("approximate"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(gelu_backward, GeluBackward,
                              BINARY.Attr<std::string_view>("approximate"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(softmax, Softmax, UNARY.Attr<int64_t>("dim"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(softmax_backward, SoftmaxBackward, BINARY.Attr<int64_t>("dim"));

extern "C" int64_t composites_calls(const char* name) {
  if (!std::strcmp(name, "gelu")) return gelu_calls;
  if (!std::strcmp(name, "gelu_backward")) return gelu_backward_calls;
  if (!std::strcmp(name, "softmax")) return softmax_calls;
  if (!std::strcmp(name, "softmax_backward")) return softmax_backward_calls;
  return -1;
}
