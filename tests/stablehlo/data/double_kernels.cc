// Typed-FFI kernels for acme.twice of block.mlir (f32, attributes axis and scale): right and wrong
// ones.
#include <cstdint>

#include "xla/ffi/api/ffi.h"

namespace ffi = xla::ffi;

using Input = ffi::Buffer<ffi::F32>;
using Output = ffi::ResultBuffer<ffi::F32>;

static ffi::Error Times(Input x, Output y, float factor) {
  for (size_t i = 0; i < x.element_count(); ++i) y->typed_data()[i] = x.typed_data()[i] * factor;
  return ffi::Error::Success();
}

static ffi::Error Right(Input x, Output y, int64_t axis, float scale) { return Times(x, y, scale); }
static ffi::Error Seven(Input x, Output y, int64_t axis, float scale) { return Times(x, y, 7); }
static ffi::Error NoAttribute(Input x, Output y) { return Times(x, y, 2); }
static ffi::Error OneAttribute(Input x, Output y, float scale) { return Times(x, y, scale); }
static ffi::Error ByName(Input x, Output y, ffi::Dictionary attributes) {
  ffi::ErrorOr<float> scale = attributes.get<float>("scale");
  if (scale.has_error()) return scale.error();
  return Times(x, y, *scale);
}
static ffi::Error Failing(Input x, Output y, int64_t axis, float scale) {
  return ffi::Error::InvalidArgument("planted");
}
static ffi::Error WrongType(ffi::Buffer<ffi::F64> x, Output y, int64_t axis, float scale) {
  return ffi::Error::Success();
}

#define TYPES ffi::Ffi::Bind().Arg<Input>().Ret<ffi::Buffer<ffi::F32>>()
#define ATTRIBUTES Attr<int64_t>("axis").Attr<float>("scale")

XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_right, Right, TYPES.ATTRIBUTES);
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_seven, Seven, TYPES.ATTRIBUTES);
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_no_attribute, NoAttribute, TYPES);
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_one_attribute, OneAttribute, TYPES.Attr<float>("scale"));
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_by_name, ByName, TYPES.Attrs());
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_failing, Failing, TYPES.ATTRIBUTES);
XLA_FFI_DEFINE_HANDLER_SYMBOL(twice_wrong_type, WrongType,
                              ffi::Ffi::Bind()
                                  .Arg<ffi::Buffer<ffi::F64>>()
                                  .Ret<ffi::Buffer<ffi::F32>>()
                                  .ATTRIBUTES);
