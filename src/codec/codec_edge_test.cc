// Rows that no model should produce and some do: zeros, constants, NaN, infinities, tiny and huge values.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/planes.h"
#include "codec/test_rows.h"

namespace swivel {
namespace {

using test_rows::Describe;

template <class Body>
void ForEachCase(Body body) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    for (int width : test_rows::FewWidthsOf(*codec)) {
      for (Side side : {Side::kKey, Side::kValue}) {
        for (ScaleMode mode : test_rows::ModesOf(*codec)) {
          SCOPED_TRACE(Describe(*codec, width, side, mode));
          body(*codec, width, side, mode);
          if (testing::Test::HasFatalFailure()) return;
        }
      }
    }
  }
}

bool AllFinite(const std::vector<float>& row) {
  return std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); });
}

TEST(Edge, ZeroRowsDecodeToExactZeros) {
  ForEachCase([](const Codec& codec, int width, Side side, ScaleMode mode) {
    for (float zero : {0.0f, -0.0f}) {
      for (float x : test_rows::RoundTrip(codec, std::vector<float>(width, zero), side, mode)) ASSERT_EQ(x, 0.0f);
    }
  });
}

TEST(Edge, ConstantAndSparseRowsKeepTheirDirection) {
  ForEachCase([](const Codec& codec, int width, Side side, ScaleMode mode) {
    // A single row of few distinct values may have twice the noise of an isotropic one, and three times where the scale does not adapt:
    // one magnitude everywhere lies far from the levels of turboprod3, and on a threshold of all four of polar's books.
    const double factor = codec.layout == Layout::kRows ? 3.2 : 2.2;
    const double bound =
        codec.layout == Layout::kRows || codec.has_integer_kernels() ? factor * test_rows::TypicalNoise(codec, side) : .02;
    for (float size : {1.0f, -3e-3f, 100.0f}) {
      std::vector<float> constant(width, size), spike(width, 0.0f), alternating(width);
      spike[width / 2] = size;
      for (int i = 0; i < width; ++i) alternating[i] = i % 2 == 0 ? size : -size;
      std::vector<std::vector<float>> rows = {constant, alternating};
      if (test_rows::MixesWholeRow(codec)) rows.push_back(spike);
      for (const std::vector<float>& row : rows) {
        const std::vector<float> back = test_rows::RoundTrip(codec, row, side, mode);
        const double cosine = test_rows::Dot(row, back) / (test_rows::Norm(row) * test_rows::Norm(back));
        ASSERT_LT(1 - cosine * cosine, bound / (1 + bound)) << size;
        ASSERT_LT(test_rows::SquaredDistance(row, back) / test_rows::Dot(row, row), 1.1 * bound) << size;
      }
    }
  });
}

// With one magnitude in every rotated slot the corrected scale makes a single spike exact, up to the rounding of the scale.
TEST(Edge, SpikesAreExactAtPowersOfTwo) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    if (codec->layout != Layout::kPlanes || !test_rows::MixesWholeRow(*codec)) continue;
    for (int width : {32, 64, 128, 256, 512}) {
      for (int at : {0, 7, width - 1}) {
        for (ScaleMode mode : test_rows::ModesOf(*codec)) {
          std::vector<float> row(width, 0.0f);
          row[at] = 5.0f;
          const std::vector<float> back = test_rows::RoundTrip(*codec, row, Side::kKey, mode);
          for (int i = 0; i < width; ++i) ASSERT_NEAR(back[i], row[i], 5.0 * (0x1p-9 + 1e-6)) << codec->name << width << " " << i;
        }
      }
    }
  }
}

TEST(Edge, DamagedRowsDecodeToNan) {
  ForEachCase([](const Codec& codec, int width, Side side, ScaleMode mode) {
    for (const test_rows::NamedRow& damaged : test_rows::DamagedRows(width, 51)) {
      const std::vector<float> back = test_rows::RoundTrip(codec, damaged.row, side, mode);
      // The block of values that share the damage: a row, a ggml block, a Hadamard block, or the value itself.
      int block = width;
      if (codec.layout == Layout::kF16 || codec.layout == Layout::kBf16) block = 1;
      if (codec.layout == Layout::kQ8_0 || codec.layout == Layout::kQ4_0) block = 32;
      if (codec.frame(side) == Frame::kHadamard || codec.frame(side) == Frame::kHadamard64) block = HadamardBlock(codec.frame(side), width);
      for (int i = 0; i < width; ++i) {
        const auto begin = damaged.row.begin() + i / block * block;
        const bool hit = std::any_of(begin, begin + block, [](float x) { return !std::isfinite(x); });
        if (block == 1) {
          ASSERT_TRUE(back[i] == damaged.row[i] || std::isnan(damaged.row[i]) == std::isnan(back[i])) << damaged.name << " " << i;
        } else {
          ASSERT_EQ(std::isnan(back[i]), hit) << damaged.name << " coordinate " << i;
        }
      }
    }
  });
}

TEST(Edge, FiniteRowsStayFiniteOrBecomeVisiblyDamaged) {
  ForEachCase([](const Codec& codec, int width, Side side, ScaleMode mode) {
    for (const test_rows::NamedRow& tricky : test_rows::FiniteAdversaries(width, 52)) {
      const std::vector<float> back = test_rows::RoundTrip(codec, tricky.row, side, mode);
      float largest = 0.0f;
      for (float x : tricky.row) largest = std::max(largest, std::fabs(x));
      // Far from the ends of the float range every codec's own range must hold; f16 scales end at 65504 and 6e-8.
      const bool half_scale = codec.layout == Layout::kF16 || codec.layout == Layout::kQ8_0 || codec.layout == Layout::kQ4_0;
      if (largest < (half_scale ? 6e4f : 1e35f)) {
        ASSERT_TRUE(AllFinite(back)) << tricky.name;
      } else if (AllFinite(back) && !half_scale) {
        // cos^2 of the angle between a row and its codes; the norm is at most 1 / cos of it, in the unbiased mode.
        const double least = test_rows::MixesWholeRow(codec) ? 0.5 : 0.1;
        ASSERT_LT(test_rows::Norm(back),
                  1.13 / std::sqrt(least) * std::sqrt(1 + test_rows::TypicalNoise(codec, side)) * test_rows::Norm(tricky.row))
            << tricky.name;
        ASSERT_GT(test_rows::Dot(back, tricky.row), least * test_rows::Dot(tricky.row, tricky.row)) << tricky.name;
      }
    }
  });
}

TEST(Edge, PowersOfTwoChangeOnlyTheScale) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    if (!codec->has_integer_kernels()) continue;
    for (int width : test_rows::kWidths) {
      for (ScaleMode mode : test_rows::ModesOf(*codec)) {
        SCOPED_TRACE(Describe(*codec, width, Side::kKey, mode) + ", seed 53");
        Random random(53);
        const std::vector<float> row = test_rows::GaussianRow(random, width);
        std::vector<uint8_t> group(codec->group_bytes(width), 0);
        codec->encode(row.data(), width, Side::kKey, mode, group.data(), 3);
        const size_t scale_at = ScalesOffset(codec->code_bits, width) + 6;
        const int scale = group[scale_at] | group[scale_at + 1] << 8;
        for (int exponent : {-100, -40, -1, 1, 7, 60, 110}) {
          std::vector<float> scaled = row;
          for (float& x : scaled) x = std::ldexp(x, exponent);
          std::vector<uint8_t> other(group.size(), 0);
          codec->encode(scaled.data(), width, Side::kKey, mode, other.data(), 3);
          // Eight mantissa bits: one more power of two is 256 more.
          ASSERT_EQ((other[scale_at] | other[scale_at + 1] << 8) - scale, 256 * exponent);
          std::copy_n(group.begin() + scale_at, 2, other.begin() + scale_at);
          ASSERT_EQ(group, other) << exponent;
        }
      }
    }
  }
}

TEST(Edge, TinyRowsLoseThePrecisionOfTheirScaleOnly) {
  for (const Codec* codec : test_rows::RowCodecs()) {
    if (!codec->has_integer_kernels()) continue;
    Random random(54);
    // The scale's step below 2^-126 is 2^-134 = 4.6e-41.
    const std::vector<float> row = test_rows::GaussianRow(random, 64, 1e-39);
    const std::vector<float> back = test_rows::RoundTrip(*codec, row, Side::kKey, ScaleMode::kMatched);
    const double typical = 1.0 / std::sqrt(1.0 + test_rows::TypicalNoise(*codec, Side::kKey));
    EXPECT_GT(test_rows::Dot(row, back) / (test_rows::Norm(row) * test_rows::Norm(back)), 0.95 * typical) << codec->name;
    EXPECT_NEAR(test_rows::Norm(back) / test_rows::Norm(row), 1.0, 0.05) << codec->name;
  }
}

// Blocks whose step is so small that its reciprocal overflows: codes must not depend on how a processor converts NaN to an integer.
TEST(Edge, BlocksBelowTheHalfRangeBecomeZeros) {
  for (const char* name : {"q8_0", "q4_0", "q8_0_rot", "q4_0_rot"}) {
    const Codec& codec = **FindCodec(name);
    for (float size : {1e-44f, 1e-40f, 1e-38f, 2e-38f}) {
      std::vector<float> row(64, 0.0f);
      row[5] = size;
      row[40] = -size;
      std::vector<uint8_t> group(codec.group_bytes(64), 0xff);
      codec.encode(row.data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 0);
      for (float x : test_rows::Decode(codec, group.data(), 64, Side::kKey, 0)) ASSERT_EQ(x, 0.0f) << name << " " << size;
      const uint8_t zero_code = codec.code_bits == 8 ? 0x00 : 0x88;
      if (std::string(name).find("rot") == std::string::npos) {
        EXPECT_EQ(group[2 + 7], zero_code) << name << " " << size;
      }
    }
  }
}

}  // namespace
}  // namespace swivel
