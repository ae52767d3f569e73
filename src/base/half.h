// 16-bit floating-point formats, converted in plain integer arithmetic so that bytes do not depend on the machine.
#ifndef SWIVEL_BASE_HALF_H_
#define SWIVEL_BASE_HALF_H_

#include <bit>
#include <cstdint>

namespace swivel {

// IEEE 754 binary16, round to nearest even; overflow gives infinity, NaN stays NaN.
inline uint16_t F16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return static_cast<uint16_t>(sign | 0x7e00u);
  if (magnitude >= 0x477ff000u) return static_cast<uint16_t>(sign | 0x7c00u);  // 65520 and above round to infinity
  if (magnitude < 0x38800000u) {
    // Subnormal result: adding 0.5 aligns the value so that the hardware rounds at the right bit.
    const float shifted = std::bit_cast<float>(magnitude) + 0.5f;
    return static_cast<uint16_t>(sign | (std::bit_cast<uint32_t>(shifted) - 0x3f000000u));
  }
  const uint32_t odd = (magnitude >> 13) & 1u;
  return static_cast<uint16_t>(sign | ((magnitude + 0xc8000fffu + odd) >> 13));
}

inline float F32FromF16(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000u) << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | (mantissa << 13));
  return std::bit_cast<float>(sign | ((exponent + 112) << 23) | (mantissa << 13));
}

// bfloat16, round to nearest even.
inline uint16_t Bf16FromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return static_cast<uint16_t>((bits >> 16) | 0x40u);
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

inline float F32FromBf16(uint16_t bf16) { return std::bit_cast<float>(static_cast<uint32_t>(bf16) << 16); }

// The scale of a packed row: e8m8, a non-negative float without its sign bit and with 8 mantissa bits.
// A scale is never negative, so the sign bit of bfloat16 buys one more bit of precision (2^-9 relative) at the range of a float;
// binary16 would lose norms above 65504 and below 6e-8. NaN is 0xffff; finite values too large round to the largest finite one.
inline constexpr uint16_t kScaleNan = 0xffffu;
inline uint16_t ScaleFromF32(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7f800000u) == 0x7f800000u) return kScaleNan;
  const uint32_t rounded = ((bits & 0x7fffffffu) + 0x3fffu + ((bits >> 15) & 1u)) >> 15;
  return static_cast<uint16_t>(rounded < 0xff00u ? rounded : 0xfeffu);
}
inline float F32FromScale(uint16_t scale) { return std::bit_cast<float>(static_cast<uint32_t>(scale) << 15); }

}  // namespace swivel

#endif  // SWIVEL_BASE_HALF_H_
