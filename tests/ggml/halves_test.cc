// f16 and bf16 against ggml's conversions, over all halves and many floats.
#include <ggml.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "codec/test_rows.h"

namespace swivel {
namespace {

std::vector<float> Floats() {
  std::vector<float> floats;
  Random random(91);
  for (int i = 0; i < 2000000; ++i) floats.push_back(std::bit_cast<float>(static_cast<uint32_t>(random.Bits() >> 32)));
  for (uint32_t half = 0; half < 65535; ++half) {
    // Ties between neighbouring halves and the floats next to them.
    const float middle = 0.5f * (F32FromF16(static_cast<uint16_t>(half)) + F32FromF16(static_cast<uint16_t>(half + 1)));
    for (float x : {middle, std::nextafter(middle, 0.0f), std::nextafter(middle, 1e30f)}) floats.push_back(x);
  }
  return floats;
}

TEST(GgmlHalves, F16EncodesAlike) {
  const std::vector<float> floats = Floats();
  std::vector<ggml_fp16_t> theirs(floats.size());
  ggml_fp32_to_fp16_row(floats.data(), theirs.data(), static_cast<int64_t>(floats.size()));
  for (size_t i = 0; i < floats.size(); ++i) {
    if (std::isnan(floats[i])) {
      ASSERT_TRUE(std::isnan(F32FromF16(F16FromF32(floats[i])))) << i;
    } else {
      ASSERT_EQ(F16FromF32(floats[i]), theirs[i]) << std::hexfloat << floats[i];
    }
  }
}

TEST(GgmlHalves, Bf16EncodesAlike) {
  const std::vector<float> floats = Floats();
  std::vector<ggml_bf16_t> theirs(floats.size());
  ggml_fp32_to_bf16_row_ref(floats.data(), theirs.data(), static_cast<int64_t>(floats.size()));
  for (size_t i = 0; i < floats.size(); ++i) ASSERT_EQ(Bf16FromF32(floats[i]), theirs[i].bits) << std::hexfloat << floats[i];
}

TEST(GgmlHalves, EveryHalfDecodesAlike) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    const float theirs = ggml_fp16_to_fp32(half), ours = F32FromF16(half);
    ASSERT_TRUE(theirs == ours || (std::isnan(theirs) && std::isnan(ours))) << bits;
    const float theirs_b = ggml_bf16_to_fp32(ggml_bf16_t{half}), ours_b = F32FromBf16(half);
    ASSERT_TRUE(theirs_b == ours_b || (std::isnan(theirs_b) && std::isnan(ours_b))) << bits;
  }
}

// The codecs, not only the conversions: both layouts.
TEST(GgmlHalves, CodecsStoreGgmlsHalves) {
  Random random(92);
  for (int i = 0; i < 2000; ++i) {
    const std::vector<float> row = test_rows::GaussianRow(random, 64, 100.0);
    std::vector<ggml_fp16_t> f16(64);
    std::vector<ggml_bf16_t> bf16(64);
    ggml_fp32_to_fp16_row(row.data(), f16.data(), 64);
    ggml_fp32_to_bf16_row_ref(row.data(), bf16.data(), 64);
    for (Side side : {Side::kKey, Side::kValue}) {
      const std::vector<float> ours = test_rows::RoundTrip(**FindCodec("f16"), row, side, ScaleMode::kMatched, i % kGroupTokens);
      const std::vector<float> ours_b = test_rows::RoundTrip(**FindCodec("bf16"), row, side, ScaleMode::kMatched, i % kGroupTokens);
      for (int j = 0; j < 64; ++j) {
        ASSERT_EQ(ours[j], ggml_fp16_to_fp32(f16[j])) << "seed 92";
        ASSERT_EQ(ours_b[j], ggml_bf16_to_fp32(bf16[j])) << "seed 92";
      }
    }
  }
}

}  // namespace
}  // namespace swivel
