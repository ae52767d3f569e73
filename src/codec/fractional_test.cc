// Codecs between whole bits: the outlier split (turbo2.5, turbo3.5) and the books of 5 and 11 levels.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>
#include <string>
#include <vector>

#include "base/half.h"
#include "codec/codec.h"
#include "codec/rows.h"
#include "codec/test_rows.h"
#include "math/codebook.h"

namespace swivel {
namespace {

using test_rows::Dot;
using test_rows::Find;
using test_rows::Norm;
using test_rows::RoundTrip;
using test_rows::SquaredDistance;

constexpr const char* kNames[] = {"turbo2.5", "turbo3.5", "turbo_n5", "turbo_n11"};
constexpr const char* kSplits[] = {"turbo2.5", "turbo3.5"};

double Error(const std::string& codec, const std::vector<float>& row, ScaleMode mode = ScaleMode::kMatched) {
  return SquaredDistance(row, RoundTrip(Find(codec), row, Side::kKey, mode)) / Dot(row, row);
}

TEST(BitString, ReadsWhatWasWritten) {
  Random random(91);
  for (int bits = 1; bits <= 8; ++bits) {
    for (int count : {1, 2, 7, 8, 33, 64}) {
      const size_t bytes = (static_cast<size_t>(bits) * count + 7) / 8;
      std::vector<uint8_t> memory(bytes);  // exactly as many: a sanitizer sees the end
      for (uint8_t& byte : memory) byte = static_cast<uint8_t>(random.Bits() >> 56);
      const std::vector<uint8_t> before = memory;
      std::vector<int> fields(count);
      for (int i = 0; i < count; ++i) {
        fields[i] = static_cast<int>(random.Bits() >> (64 - bits));
        PutBits(memory.data(), bits * i, bits, fields[i]);
      }
      for (int i = 0; i < count; ++i) {
        ASSERT_EQ(GetBits(memory.data(), bits * i, bits), fields[i]) << bits << " bits, " << i << ", seed 91";
        // The documented place: bit j of the string is bit j % 8 of byte j / 8.
        for (int b = 0; b < bits; ++b) ASSERT_EQ(memory[(i * bits + b) / 8] >> ((i * bits + b) % 8) & 1, fields[i] >> b & 1);
      }
      for (size_t b = static_cast<size_t>(bits) * count; b < 8 * bytes; ++b) {
        ASSERT_EQ(memory[b / 8] >> (b % 8) & 1, before[b / 8] >> (b % 8) & 1) << "a bit behind the last field";
      }
    }
  }
}

// Gaussian rows of width 128. The books: their own distortion, at scale 1 (.0799, .0192) less a little for the spherical law. The splits:
// simulated apart from this code with other rotations.
TEST(Fractional, DistortionIsThatOfTheory) {
  for (const char* name : kNames) {
    Random random(92);
    double sum = 0.0;
    for (int i = 0; i < 6000; ++i) sum += Error(name, test_rows::UnitRow(random, 128));
    const double expected = test_rows::TypicalNoise(Find(name), Side::kKey);
    EXPECT_NEAR(sum / 6000, expected, 0.015 * expected + 5e-5) << name << ", seed 92";
    RecordProperty(name, std::to_string(sum / 6000));
  }
}

TEST(Fractional, ScaleModesKeepWhatTheyPromise) {
  for (const char* name : kNames) {
    for (int width : {64, 96, 128, 576}) {
      Random random(93);
      for (int i = 0; i < 50; ++i) {
        const std::vector<float> row = test_rows::GaussianRow(random, width, 30.0);
        // A split's second scale has 7 mantissa bits, half the precision of e8m8.
        const double slack = 0x1p-8 + 1e-6;
        ASSERT_NEAR(Norm(RoundTrip(Find(name), row, Side::kKey, ScaleMode::kMatched)) / Norm(row), 1.0, slack) << name << width;
        ASSERT_NEAR(Dot(row, RoundTrip(Find(name), row, Side::kKey, ScaleMode::kUnbiased)) / Dot(row, row), 1.0, slack) << name << width;
        const double least = Error(name, row, ScaleMode::kLeastSquares);
        ASSERT_LE(least, Error(name, row, ScaleMode::kMatched) + 1e-5) << name << width;
        ASSERT_LE(least, Error(name, row, ScaleMode::kUnbiased) + 1e-5) << name << width;
      }
    }
  }
}

// A split is two independent codecs: its parts decode to what the whole-bit codec makes of them alone, but for the rounding of scales.
TEST(Split, IsTwoTurboQuants) {
  struct Parts {
    const char* split;
    const char* outliers;
    const char* rest;
  };
  for (const Parts& codec : {Parts{"turbo2.5", "turbo3", "turbo2"}, Parts{"turbo3.5", "turbo4", "turbo3"}}) {
    for (int width : {128, 256}) {  // widths whose parts are head widths
      Random random(94);
      for (int i = 0; i < 40; ++i) {
        std::vector<float> row = test_rows::GaussianRow(random, width);
        const int block = width / 8;
        const int a = i % 7, b = a + 1 + i % (7 - a);  // loud blocks
        std::vector<float> outliers, rest;
        for (int j = 0; j < width; ++j) {
          const bool loud = j / block == a || j / block == b;
          if (loud) row[j] *= 6.0f;
          (loud ? outliers : rest).push_back(row[j]);
        }
        const std::vector<float> back = RoundTrip(Find(codec.split), row, Side::kKey, ScaleMode::kMatched);
        const std::vector<float> loud_back = RoundTrip(Find(codec.outliers), outliers, Side::kKey, ScaleMode::kMatched);
        const std::vector<float> rest_back = RoundTrip(Find(codec.rest), rest, Side::kKey, ScaleMode::kMatched);
        size_t next_loud = 0, next_rest = 0;
        for (int j = 0; j < width; ++j) {
          const bool loud = j / block == a || j / block == b;
          const float expected = loud ? loud_back[next_loud++] : rest_back[next_rest++];
          const double largest = 3.0 * (loud ? Norm(outliers) : Norm(rest));
          ASSERT_NEAR(back[j], expected, largest * (loud ? 1e-6 : 0x1p-7)) << codec.split << " " << width << " " << i << " channel " << j;
        }
      }
    }
  }
}

// Every pair of blocks can be chosen, and is stored where the format says.
TEST(Split, TheTwoLoudestBlocksAreTheOutliers) {
  for (const char* name : kSplits) {
    const Codec& codec = Find(name);
    const size_t row_bytes = codec.group_bytes(64) / kGroupTokens;
    std::set<int> seen;
    for (int b = 1; b < 8; ++b) {
      for (int a = 0; a < b; ++a) {
        std::vector<float> row(64, 0.25f);
        row[8 * a + 3] = -4.0f;
        row[8 * b + 7] = 4.0f;
        std::vector<uint8_t> group(codec.group_bytes(64), 0);
        codec.encode(row.data(), 64, Side::kValue, ScaleMode::kMatched, group.data(), 9);
        const int index = GetU16(group.data() + 9 * row_bytes + 2) >> 11;
        EXPECT_EQ(index, b * (b - 1) / 2 + a);
        seen.insert(index);
      }
    }
    EXPECT_EQ(seen.size(), 28u);
    // Equal blocks: the lower ones.
    std::vector<uint8_t> group(codec.group_bytes(64), 0);
    codec.encode(std::vector<float>(64, 1.0f).data(), 64, Side::kKey, ScaleMode::kMatched, group.data(), 0);
    EXPECT_EQ(GetU16(group.data() + 2) >> 11, 0);
  }
}

TEST(Split, AnImpossibleSetIsVisible) {
  for (const char* name : kSplits) {
    const Codec& codec = Find(name);
    Random random(95);
    std::vector<uint8_t> group(codec.group_bytes(128), 0);
    const std::vector<float> row = test_rows::GaussianRow(random, 128);
    codec.encode(row.data(), 128, Side::kKey, ScaleMode::kMatched, group.data(), 0);
    for (int set = 0; set < 32; ++set) {
      PutU16(group.data() + 2, static_cast<uint16_t>((GetU16(group.data() + 2) & 0x7ff) | set << 11));
      for (float x : test_rows::Decode(codec, group.data(), 128, Side::kKey, 0)) ASSERT_EQ(std::isnan(x), set >= 28) << set;
    }
  }
}

// The rest keeps its own precision however loud the outliers are, down to 2^-20 of them; below it vanishes.
TEST(Split, TheRestHasAScaleOfItsOwn) {
  for (const char* name : kSplits) {
    Random random(96);
    for (double loud : {10.0, 30.0, 1e3, 3e3, 1e5, 1e9, 1e30}) {
      double error = 0.0, energy = 0.0;
      for (int i = 0; i < 200; ++i) {
        std::vector<float> row = test_rows::GaussianRow(random, 128);
        for (int j : {20, 21, 90}) row[j] = static_cast<float>(loud * (3.0 + 0.1 * random.Normal()));
        const std::vector<float> back = RoundTrip(Find(name), row, Side::kKey, ScaleMode::kMatched);
        for (int j = 0; j < 128; ++j) {
          if (j / 16 == 1 || j / 16 == 5) continue;
          error += (row[j] - back[j]) * (row[j] - back[j]);
          energy += row[j] * row[j];
        }
      }
      const double quiet = error / energy;  // the rest alone: turbo2 or turbo3
      const double native = name == std::string("turbo2.5") ? .1188 : .0338;
      if (loud <= 3e3) {
        EXPECT_NEAR(quiet, native, 0.05 * native) << name << " " << loud << ", seed 96";
      } else if (loud <= 1e5) {
        EXPECT_LT(quiet, 1.3 * native) << name << " " << loud << ", seed 96";
      } else {
        EXPECT_NEAR(quiet, 1.0, 1e-6) << name << " " << loud << ", seed 96";
      }
    }
  }
}

// Why there is a split at all: at 2.5 bits a row with outlier channels loses a third less than with a flat book of the same size.
TEST(Split, OutliersAreWorthTheirBits) {
  Random random(97);
  double split = 0.0, flat = 0.0, two = 0.0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<float> row = test_rows::GaussianRow(random, 128);
    for (int j : {2, 3}) row[j] = 20.0f * random.Normal();
    split += Error("turbo2.5", row);
    flat += Error("turbo_n5", row);
    two += Error("turbo2", row);
  }
  EXPECT_LT(split, 0.7 * flat);
  EXPECT_LT(split, 0.5 * two);
}

// The digits: each code is the nearest level of its book, and decoding a field takes them apart in the documented order.
TEST(Radix, FieldsAreDigits) {
  struct Book {
    const char* name;
    std::vector<float> levels;
    int digits;
  };
  const Book books[] = {{"turbo_n5", {kLloydMaxN5.begin(), kLloydMaxN5.end()}, 3},
                        {"turbo_n11", {kLloydMaxN11.begin(), kLloydMaxN11.end()}, 2}};
  for (const Book& book : books) {
    const Codec& codec = Find(book.name);
    const int base = static_cast<int>(book.levels.size());
    for (int width : {32, 48, 64, 80, 128}) {
      Random random(98);
      const size_t row_bytes = codec.group_bytes(width) / kGroupTokens;
      std::vector<uint8_t> group(codec.group_bytes(width), 0);
      const std::vector<float> row = test_rows::GaussianRow(random, width);
      codec.encode(row.data(), width, Side::kKey, ScaleMode::kMatched, group.data(), 3);
      std::vector<float> back(width);
      codec.decode_in_frame(group.data(), width, Side::kKey, 3, back.data());
      const uint8_t* at = group.data() + 3 * row_bytes;
      const float scale = GetScale(at);
      std::vector<float> rotated = row;
      Rotate(Frame::kSignedHadamard, rotated.data(), width);
      const float to_unit = static_cast<float>(std::sqrt(width) / Norm(rotated));
      const int fields = (width + book.digits - 1) / book.digits;
      for (int f = 0; f < fields; ++f) {
        int field = 0;
        for (int b = 0; b < 7; ++b) field |= (at[2 + (7 * f + b) / 8] >> ((7 * f + b) % 8) & 1) << b;
        for (int digit = 0; digit < book.digits; ++digit, field /= base) {
          const int i = f * book.digits + digit;
          if (i >= width) {
            EXPECT_EQ(field, 0) << "padding";
            continue;
          }
          const float level = book.levels[field % base];
          EXPECT_EQ(back[i], level * scale) << i;
          for (float other : book.levels)
            EXPECT_LE(std::fabs(rotated[i] * to_unit - level), std::fabs(rotated[i] * to_unit - other) + 1e-5) << i;
        }
      }
    }
  }
}

// Fields that no encoder writes must still decode to levels, not to what lies behind the table.
TEST(Radix, ImpossibleFieldsDecodeToLevels) {
  for (const char* name : {"turbo_n5", "turbo_n11"}) {
    const Codec& codec = Find(name);
    std::vector<uint8_t> group(codec.group_bytes(64), 0xff);
    PutU16(group.data(), ScaleFromF32(1.0f));
    std::vector<float> row(64);
    codec.decode_in_frame(group.data(), 64, Side::kKey, 0, row.data());
    for (float x : row) EXPECT_LE(std::fabs(x), 2.5f);
  }
}

}  // namespace
}  // namespace swivel
