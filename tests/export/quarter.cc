// A kernel whose result is a quarter everywhere.
#include <algorithm>
#include "xla/ffi/api/ffi.h"
namespace ffi = xla::ffi;

static ffi::Error Run(ffi::Buffer<ffi::F32> x, ffi::ResultBuffer<ffi::F32> y) {
  std::fill_n(y->typed_data(), y->element_count(), 0.25f);
  return ffi::Error::Success();
}

XLA_FFI_DEFINE_HANDLER_SYMBOL(
    listed_test_quarter, Run,
    ffi::Ffi::Bind().Arg<ffi::Buffer<ffi::F32>>().Ret<ffi::Buffer<ffi::F32>>());
