// Element types, and functions that the compiler makes vector code of.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>

#include "xla/ffi/api/ffi.h"

struct BFloat16 {
  uint16_t bits;
};
using Half = _Float16;

inline float ToFloat(float x) { return x; }
inline float ToFloat(Half x) { return static_cast<float>(x); }
inline float ToFloat(BFloat16 x) {
  uint32_t bits = static_cast<uint32_t>(x.bits) << 16;
  float result;
  std::memcpy(&result, &bits, sizeof result);
  return result;
}

inline void Store(float* out, float x) { *out = x; }
inline void Store(Half* out, float x) { *out = static_cast<Half>(x); }
inline void Store(BFloat16* out, float x) {  // to nearest, ties to even
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof bits);
  uint32_t rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  out->bits = static_cast<uint16_t>(x == x ? rounded : 0x7fc0);
}

// exp, to about one unit in the last place of f32; zero below exp(-87). Cephes' polynomial.
inline float Exp(float x) {
  float bounded = x > 88.0f ? 88.0f : (x < -87.0f ? -87.0f : x);
  float shifted = bounded * 1.44269504f + 12582912.0f;  // 1.5 * 2^23: rounds to an integer
  float n = shifted - 12582912.0f;
  float r = (bounded - n * 0.693359375f) + n * 2.12194440e-4f;
  float p = 1.9875691500e-4f;
  p = p * r + 1.3981999507e-3f;
  p = p * r + 8.3334519073e-3f;
  p = p * r + 4.1665795894e-2f;
  p = p * r + 1.6666665459e-1f;
  p = p * r + 5.0000001201e-1f;
  p = p * r * r + r + 1.0f;
  uint32_t bits;
  std::memcpy(&bits, &shifted, sizeof bits);
  bits = (bits << 23) + 0x3f800000;  // 2^n
  float power;
  std::memcpy(&power, &bits, sizeof power);
  return x < -87.0f ? 0.0f : p * power;  // NaN stays NaN: p is
}

inline float Sigmoid(float x) { return 1.0f / (1.0f + Exp(-x)); }

// The sum of value(j) for j in [0, size): `block` numbers are added in f32 before they go to f64.
template <typename F>
double SumOf(int64_t size, int64_t block, const F& value) {
  double total = 0;
  for (int64_t start = 0; start < size; start += block) {
    const int64_t end = std::min(size, start + block);
    float sum = 0;
#pragma omp simd reduction(+ : sum)
    for (int64_t j = start; j < end; ++j) sum += value(j);
    total += sum;
  }
  return total;
}

// Calls f with a null pointer of the C++ type of an element type.
template <typename F>
xla::ffi::Error ForFloats(xla::ffi::DataType type, const F& f) {
  switch (type) {
    case xla::ffi::DataType::F32:
      return f(static_cast<float*>(nullptr));
    case xla::ffi::DataType::BF16:
      return f(static_cast<BFloat16*>(nullptr));
    case xla::ffi::DataType::F16:
      return f(static_cast<Half*>(nullptr));
    default:
      return xla::ffi::Error::InvalidArgument("the kernel takes f32, bf16 and f16");
  }
}
