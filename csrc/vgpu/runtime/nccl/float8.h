// 8-bit floats: conversion to and from float.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_FLOAT8_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_FLOAT8_H_

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>

namespace streamguard::vgpu::nccl {

// OCP 8-bit floats: E4M3 (no infinities, NaN is S.1111.111) and E5M2 (IEEE-like).
template <int kExponentBits, int kBias, int kLargestCode, int kNanCode>
class Float8Format {
 public:
  using Element = uint8_t;
  using Accumulator = float;

  static float read(uint8_t code) { return table()[code]; }

  // Rounds to nearest, ties to the even code; values beyond the largest saturate.
  static uint8_t write(float value) {
    if (std::isnan(value)) return kNanCode;
    const uint8_t sign = std::signbit(value) ? 0x80 : 0;
    const float magnitude = std::fabs(value);
    const auto& values = table();
    const auto* begin = values.data();
    const auto* end = begin + kLargestCode + 1;
    const auto* above = std::lower_bound(begin, end, magnitude);
    if (above == end) return static_cast<uint8_t>(sign | kLargestCode);
    auto code = static_cast<uint8_t>(above - begin);
    if (code > 0) {
      const float up = *above - magnitude;
      const float down = magnitude - above[-1];
      if (down < up || (down == up && (code & 1) != 0)) --code;
    }
    return static_cast<uint8_t>(sign | code);
  }

 private:
  static constexpr int kMantissaBits = 7 - kExponentBits;

  static float decode(int code) {
    const int exponent = code >> kMantissaBits;
    const int mantissa = code & ((1 << kMantissaBits) - 1);
    if (exponent == 0) return std::ldexp(static_cast<float>(mantissa), 1 - kBias - kMantissaBits);
    const int significand = mantissa | (1 << kMantissaBits);
    return std::ldexp(static_cast<float>(significand), exponent - kBias - kMantissaBits);
  }

  static const std::array<float, 256>& table() {
    static const std::array<float, 256> kTable = [] {
      std::array<float, 256> values{};
      for (int code = 0; code < 128; ++code) {
        float value = code <= kLargestCode ? decode(code) : NAN;
        if (kExponentBits == 5 && code == kLargestCode + 1) value = INFINITY;
        values[static_cast<size_t>(code)] = value;
        values[static_cast<size_t>(code) + 128] = -value;
      }
      return values;
    }();
    return kTable;
  }
};

using Float8E4M3 = Float8Format<4, 7, 0x7e, 0x7f>;
using Float8E5M2 = Float8Format<5, 15, 0x7b, 0x7f>;

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_FLOAT8_H_
