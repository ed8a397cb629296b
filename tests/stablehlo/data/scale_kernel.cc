// A typed-FFI kernel that shows each kind of attribute arriving: y = x * factor * sum(weights),
// negated when asked; `mode` must be "fast".
#include <cstdint>
#include <string_view>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

static ffi::Error Scale(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y, float factor,
                        int64_t axis, bool negate, std::string_view mode,
                        ffi::Span<const int64_t> weights) {
  if (mode != "fast" || axis != 1) return ffi::Error::InvalidArgument("wrong attributes");
  float scale = negate ? -factor : factor;
  int64_t sum = 0;
  for (int64_t weight : weights) sum += weight;
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * scale * sum;
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(ScaleKernel, Scale,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F32>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .Attr<float>("factor")
                                  .Attr<int64_t>("axis")
                                  .Attr<bool>("negate")
                                  .Attr<std::string_view>("mode")
                                  .Attr<ffi::Span<const int64_t>>("weights"));
