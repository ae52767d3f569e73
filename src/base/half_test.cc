// The 16-bit formats against a reference in double arithmetic and, where the compiler has one, its own half type.
#include "base/half.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "base/random.h"

namespace swivel {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

// Round to nearest even with `bits` explicit mantissa bits and the smallest normal exponent `lowest`; the value may be one step above
// the largest finite one. Exact in double.
double RoundToFormat(double value, int bits, int lowest) {
  if (value == 0.0 || std::isinf(value)) return value;
  const int exponent = std::max(std::ilogb(value), lowest);
  const double step = std::ldexp(1.0, exponent - bits);
  return std::nearbyint(value / step) * step;
}

double ReferenceF16(float value) {
  const double rounded = RoundToFormat(value, 10, -14);
  return std::fabs(rounded) > 65504.0 ? std::copysign(kInf, value) : rounded;
}

double ReferenceBf16(float value) {
  const double rounded = RoundToFormat(value, 7, -126);
  return std::fabs(rounded) > 3.3895313892515355e38 ? std::copysign(kInf, value) : rounded;
}

// Every interesting region: all exponents, ties and their neighbours, both signs.
std::vector<float> TrickyFloats() {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               kInf,
                               -kInf,
                               65504.0f,
                               65519.0f,
                               65519.996f,
                               65520.0f,
                               65536.0f,
                               1e30f,
                               5.9604645e-8f,
                               2.9802322e-8f,
                               2.9802326e-8f,
                               8.940697e-8f,
                               6.1035156e-5f,
                               6.1005e-5f,
                               std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min()};
  for (uint32_t half = 0; half < 0x7c00; ++half) {
    // The midpoint between neighbouring halves and the floats beside it.
    const float low = F32FromF16(static_cast<uint16_t>(half));
    const float high = half + 1 < 0x7c00 ? F32FromF16(static_cast<uint16_t>(half + 1)) : 65536.0f;
    const float middle = 0.5f * (low + high);
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, kInf), std::nextafter(low, kInf)}) {
      values.push_back(x);
      values.push_back(-x);
    }
  }
  Random random(11);
  for (int i = 0; i < 300000; ++i) {
    const float x = std::bit_cast<float>(static_cast<uint32_t>(random.Bits() >> 32));
    if (!std::isnan(x)) values.push_back(x);
  }
  return values;
}

TEST(Half, EveryF16RoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = F32FromF16(half);
    if ((bits & 0x7fff) > 0x7c00) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_GT(F16FromF32(value) & 0x7fff, 0x7c00) << bits;
    } else {
      ASSERT_EQ(F16FromF32(value), half) << bits;
      ASSERT_EQ(std::signbit(value), bits >= 0x8000) << bits;
    }
  }
}

TEST(Half, EveryBf16RoundTrips) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float value = F32FromBf16(half);
    if ((bits & 0x7fff) > 0x7f80) {
      ASSERT_TRUE(std::isnan(value)) << bits;
      ASSERT_GT(Bf16FromF32(value) & 0x7fff, 0x7f80) << bits;
    } else {
      ASSERT_EQ(Bf16FromF32(value), half) << bits;
    }
  }
}

TEST(Half, F16RoundsToNearestEven) {
  for (float x : TrickyFloats()) {
    ASSERT_EQ(F32FromF16(F16FromF32(x)), ReferenceF16(x)) << std::hexfloat << x;
    ASSERT_EQ(F16FromF32(x) >> 15, std::signbit(x) ? 1 : 0) << std::hexfloat << x;
  }
  EXPECT_EQ(F16FromF32(kNan) & 0x7fff, 0x7e00);
}

TEST(Half, Bf16RoundsToNearestEven) {
  for (float x : TrickyFloats()) ASSERT_EQ(F32FromBf16(Bf16FromF32(x)), ReferenceBf16(x)) << std::hexfloat << x;
  EXPECT_TRUE(std::isnan(F32FromBf16(Bf16FromF32(kNan))));
  // A NaN whose payload lives only in the bits that are cut must not become an infinity.
  EXPECT_TRUE(std::isnan(F32FromBf16(Bf16FromF32(std::bit_cast<float>(0x7f800001u)))));
}

#if defined(__FLT16_MANT_DIG__)
#if defined(__aarch64__)
using CompilersHalf = __fp16;  // C++ has _Float16 there from GCC 13 on only
#else
using CompilersHalf = _Float16;
#endif
TEST(Half, F16EqualsTheCompilersHalf) {
  for (float x : TrickyFloats()) {
    const CompilersHalf half = static_cast<CompilersHalf>(x);
    uint16_t bits;
    std::memcpy(&bits, &half, 2);
    ASSERT_EQ(F16FromF32(x), bits) << std::hexfloat << x;
  }
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t stored = static_cast<uint16_t>(bits);
    CompilersHalf half;
    std::memcpy(&half, &stored, 2);
    const float expected = static_cast<float>(half);
    const float actual = F32FromF16(stored);
    ASSERT_TRUE(actual == expected || (std::isnan(actual) && std::isnan(expected))) << bits;
  }
}
#endif

TEST(Scale, RelativeErrorIsAtMostTwoToTheMinusNine) {
  Random random(12);
  for (int i = 0; i < 400000; ++i) {
    const float x = static_cast<float>(std::pow(10.0, -37.9 + 75.9 * random.Uniform()));
    const double back = F32FromScale(ScaleFromF32(x));
    ASSERT_LE(std::fabs(back - x), std::ldexp(1.0, -9) * x) << std::hexfloat << x;
  }
}

TEST(Scale, SubnormalsKeepAnAbsoluteError) {
  // Below 2^-126 the step stays 2^-134.
  for (uint32_t bits = 0; bits < 0x00800000u; bits += 97) {
    const float x = std::bit_cast<float>(bits);
    ASSERT_LE(std::fabs(static_cast<double>(F32FromScale(ScaleFromF32(x))) - x), std::ldexp(1.0, -135)) << bits;
  }
}

TEST(Scale, EveryFiniteScaleRoundTrips) {
  for (uint32_t bits = 0; bits < 0xff00; ++bits) ASSERT_EQ(ScaleFromF32(F32FromScale(static_cast<uint16_t>(bits))), bits);
}

TEST(Scale, IsMonotoneAndRoundsTiesToEven) {
  uint16_t previous = 0;
  for (uint32_t bits = 0; bits < 0x7f800000u; bits += 1021) {
    const uint16_t scale = ScaleFromF32(std::bit_cast<float>(bits));
    ASSERT_GE(scale, previous) << bits;
    previous = scale;
  }
  for (uint32_t scale = 0x100; scale < 0xfeff; ++scale) {
    const float tie = std::bit_cast<float>(scale << 15 | 0x4000u);
    ASSERT_EQ(ScaleFromF32(tie), scale + (scale & 1)) << scale;
    ASSERT_EQ(ScaleFromF32(std::nextafter(tie, 0.0f)), scale);
    ASSERT_EQ(ScaleFromF32(std::nextafter(tie, kInf)), scale + 1);
  }
}

TEST(Scale, NanAndInfinityBecomeNanAndLargeValuesSaturate) {
  for (float x : {kNan, -kNan, kInf, -kInf}) {
    EXPECT_EQ(ScaleFromF32(x), kScaleNan);
    EXPECT_TRUE(std::isnan(F32FromScale(ScaleFromF32(x))));
  }
  EXPECT_EQ(ScaleFromF32(std::numeric_limits<float>::max()), 0xfeff);
  EXPECT_TRUE(std::isfinite(F32FromScale(0xfeff)));
  EXPECT_EQ(ScaleFromF32(0.0f), 0);
}

}  // namespace
}  // namespace swivel
