// q8_0 and q4_0 are ggml's: the same bytes, the same decoded floats, bit for bit.
#include <ggml-quants.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "codec/test_rows.h"

namespace swivel {
namespace {

constexpr int kWidth = 64;

// Rows of every kind: Gaussians over the whole range of a half, edges and ties.
template <class Body>
void ForEachRow(Body body) {
  for (const test_rows::NamedRow& named : test_rows::FiniteAdversaries(kWidth, 81)) body(named.row, named.name);
  Random random(81);
  for (int i = 0; i < 100000; ++i) {
    const double size = i % 4 == 0 ? std::pow(10.0, -9.0 + 18.0 * random.Uniform()) : 1.0;
    std::vector<float> row = test_rows::GaussianRow(random, kWidth, size);
    // Every eighth row lies on a grid, so that values fall on the middle between two codes.
    if (i % 8 == 1) {
      for (float& x : row) x = static_cast<float>(random.Below(65) - 32) * 0.25f;
    }
    if (i % 8 == 2) row[random.Below(kWidth)] = 0.0f;
    body(row, "row " + std::to_string(i) + ", seed 81");
    if (testing::Test::HasFatalFailure()) return;
  }
}

// ggml multiplies by 1 / step and casts; where that is infinite or NaN its cast is undefined, and the scale is 0 as a half anyway.
bool IsDefinedInGgml(const std::vector<float>& row, float divisor) {
  for (int block = 0; block < kWidth; block += 32) {
    float largest = 0.0f;
    for (int i = block; i < block + 32; ++i) largest = std::max(largest, std::fabs(row[i]));
    if (largest != 0.0f && !std::isfinite(1.0f / (largest / divisor))) return false;
  }
  return true;
}

template <class Block>
void CheckCodec(const char* name, float divisor, void (*quantize)(const float*, Block*, int64_t),
                void (*dequantize)(const Block*, float*, int64_t)) {
  const Codec& codec = **FindCodec(name);
  static_assert(sizeof(Block) * kGroupTokens % 64 == 0);
  ASSERT_EQ(codec.group_bytes(kWidth), kGroupTokens * sizeof(Block) * (kWidth / 32));
  std::vector<uint8_t> group(codec.group_bytes(kWidth));
  int64_t compared = 0;
  int token = 0;
  ForEachRow([&](const std::vector<float>& row, const std::string& what) {
    if (!IsDefinedInGgml(row, divisor)) return;
    token = (token + 1) % kGroupTokens;
    Block expected[kWidth / 32];
    quantize(row.data(), expected, kWidth);
    codec.encode(row.data(), kWidth, Side::kKey, ScaleMode::kMatched, group.data(), token);
    ASSERT_EQ(std::memcmp(group.data() + token * sizeof(expected), expected, sizeof(expected)), 0) << name << " " << what;
    std::vector<float> theirs(kWidth), ours(kWidth);
    dequantize(expected, theirs.data(), kWidth);
    codec.decode_in_frame(group.data(), kWidth, Side::kKey, token, ours.data());
    for (int i = 0; i < kWidth; ++i) {
      // An infinite scale times a zero code is NaN on both sides.
      if (std::isnan(theirs[i]) && std::isnan(ours[i])) continue;
      ASSERT_EQ(std::memcmp(&theirs[i], &ours[i], sizeof(float)), 0) << name << " " << what << " value " << i;
    }
    ++compared;
  });
  EXPECT_GT(compared, 100000);
}

TEST(GgmlBlocks, Q8_0IsBitExact) { CheckCodec<block_q8_0>("q8_0", 127.0f, &quantize_row_q8_0_ref, &dequantize_row_q8_0); }
TEST(GgmlBlocks, Q4_0IsBitExact) { CheckCodec<block_q4_0>("q4_0", 8.0f, &quantize_row_q4_0_ref, &dequantize_row_q4_0); }

// Every byte is a valid code: ggml and we agree on all of them.
TEST(GgmlBlocks, ArbitraryBytesDecodeAlike) {
  Random random(82);
  const Codec& q8 = **FindCodec("q8_0");
  const Codec& q4 = **FindCodec("q4_0");
  for (int i = 0; i < 20000; ++i) {
    block_q8_0 eight[2];
    block_q4_0 four[2];
    std::vector<uint8_t> group8(q8.group_bytes(kWidth)), group4(q4.group_bytes(kWidth));
    for (size_t b = 0; b < sizeof(eight); ++b) group8[b] = static_cast<uint8_t>(random.Bits() >> 56);
    for (size_t b = 0; b < sizeof(four); ++b) group4[b] = static_cast<uint8_t>(random.Bits() >> 56);
    std::memcpy(eight, group8.data(), sizeof(eight));
    std::memcpy(four, group4.data(), sizeof(four));
    std::vector<float> theirs8(kWidth), ours8(kWidth), theirs4(kWidth), ours4(kWidth);
    dequantize_row_q8_0(eight, theirs8.data(), kWidth);
    q8.decode_in_frame(group8.data(), kWidth, Side::kValue, 0, ours8.data());
    dequantize_row_q4_0(four, theirs4.data(), kWidth);
    q4.decode_in_frame(group4.data(), kWidth, Side::kValue, 0, ours4.data());
    for (int j = 0; j < kWidth; ++j) {
      ASSERT_TRUE(theirs8[j] == ours8[j] || (std::isnan(theirs8[j]) && std::isnan(ours8[j]))) << "q8_0 " << i << ", seed 82";
      ASSERT_TRUE(theirs4[j] == ours4[j] || (std::isnan(theirs4[j]) && std::isnan(ours4[j]))) << "q4_0 " << i << ", seed 82";
    }
  }
}

}  // namespace
}  // namespace swivel
