// kivi: what min/max quantisation owes its blocks, and what a group owes the rows that came first.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "base/half.h"
#include "codec/test_rows.h"

namespace swivel {
namespace {

using test_rows::Find;

constexpr int kBlock = 32;
constexpr TokenMask kAll = {{~uint64_t{0}, ~uint64_t{0}}};
constexpr const char* kNames[] = {"kivi2", "kivi4"};

TokenMask Tokens(std::initializer_list<int> tokens) {
  TokenMask mask;
  for (int token : tokens) mask.Add(token);
  return mask;
}

// 128 rows and the group that holds them.
struct Group {
  Group(const char* name, int row_width, Side of, uint64_t seed) : codec(Find(name)), width(row_width), side(of), bytes(codec, width, 0) {
    Random random(seed);
    rows.resize(static_cast<size_t>(kGroupTokens) * width);
    for (float& x : rows) x = F32FromF16(F16FromF32(random.Normal()));
  }

  float& At(int token, int i) { return rows[static_cast<size_t>(token) * width + i]; }
  TokenMask Encode(TokenMask tokens, TokenMask packed = {}) {
    return codec.encode_group(rows.data(), static_cast<size_t>(width), tokens, packed, width, side, bytes.data());
  }
  std::vector<float> Decode(int token) const { return test_rows::Decode(codec, bytes.data(), width, side, token); }
  int last() const { return (1 << codec.code_bits) - 1; }

  // The range of the block of (token, i) over `tokens`, and the step that it needs.
  double Step(int token, int i, TokenMask tokens) {
    float low = std::numeric_limits<float>::infinity(), high = -low;
    for (int n = 0; n < kBlock; ++n) {
      const int t = side == Side::kKey ? token / kBlock * kBlock + n : token;
      const int j = side == Side::kKey ? i : i / kBlock * kBlock + n;
      if (!tokens.Has(t)) continue;
      low = std::min(low, At(t, j));
      high = std::max(high, At(t, j));
    }
    return (static_cast<double>(high) - low) / last();
  }

  // Every value of `tokens` is within half a step of the range of `ranged`; a step is rounded up by at most 2^-10 of itself and 2^-24.
  void ExpectHalfAStep(TokenMask tokens, TokenMask ranged) {
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!tokens.Has(token)) continue;
      const std::vector<float> back = Decode(token);
      for (int i = 0; i < width; ++i) {
        const double bound = 0.5 * Step(token, i, ranged) * (1 + 0x1p-9) + 0x1p-24 + 1e-6 * std::fabs(At(token, i));
        ASSERT_LE(std::fabs(back[i] - At(token, i)), bound) << "token " << token << " channel " << i;
      }
    }
  }

  const Codec& codec;
  int width;
  Side side;
  std::vector<float> rows;
  test_rows::GuardedGroup bytes;
};

template <class Body>
void ForEach(Body body) {
  for (const char* name : kNames) {
    for (Side side : {Side::kKey, Side::kValue}) {
      for (int width : {32, 96, 128, 576}) {
        SCOPED_TRACE(std::string(name) + (side == Side::kKey ? " keys of " : " values of ") + std::to_string(width));
        Group group(name, width, side, 91);
        body(group);
        EXPECT_TRUE(group.bytes.GuardsIntact());
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

TEST(Kivi, ThreeAndFiveBits) {
  for (int width : {32, 64, 128, 576}) {
    EXPECT_EQ(BitsPerValue(Find("kivi2"), width), 3.0);
    EXPECT_EQ(BitsPerValue(Find("kivi4"), width), 5.0);
    EXPECT_EQ(Find("kivi2").group_bytes(width), static_cast<size_t>(48 * width));
  }
  EXPECT_FALSE(CheckWidth(Find("kivi2"), 80).ok());
}

TEST(Kivi, NoValueIsOffByMoreThanHalfAStep) {
  ForEach([](Group& group) {
    // A channel that is large everywhere, one with an offset, one of tiny values, one of both ends of the halves.
    for (int token = 0; token < kGroupTokens; ++token) {
      group.At(token, 3) *= 512;
      group.At(token, 4) += 300;
      group.At(token, 5) *= 0x1p-14f;
      group.At(token, 6) = token % 2 == 0 ? 65504.0f : -65504.0f;
    }
    for (float& x : group.rows) x = F32FromF16(F16FromF32(x));
    ASSERT_FALSE(group.Encode(kAll).Any());
    group.ExpectHalfAStep(kAll, kAll);
  });
}

// Floats that are no halves: the outer levels are rounded outwards.
TEST(Kivi, FloatsKeepTheBound) {
  ForEach([](Group& group) {
    Random random(92);
    for (float& x : group.rows) x = 1000.0f + 0.1f * random.Normal();
    ASSERT_FALSE(group.Encode(kAll).Any());
    for (int token = 0; token < kGroupTokens; ++token) {
      const std::vector<float> back = group.Decode(token);
      for (int i = 0; i < group.width; ++i) {
        // Halves near 1000 are 0.5 apart, so the range grows by as much.
        const double bound = 0.5 * (group.Step(token, i, kAll) + 0.5 / group.last()) * (1 + 0x1p-9);
        ASSERT_LE(std::fabs(back[i] - group.At(token, i)), bound + 1e-4);
      }
    }
  });
}

// An outlier channel of the keys costs the other channels nothing: what the method is for.
TEST(Kivi, AChannelOfKeysKeepsItsOutliersToItself) {
  for (const char* name : kNames) {
    Group plain(name, 64, Side::kKey, 93), loud(name, 64, Side::kKey, 93);
    for (int token = 0; token < kGroupTokens; ++token) loud.At(token, 9) *= 1000;
    plain.Encode(kAll);
    loud.Encode(kAll);
    for (int token = 0; token < kGroupTokens; ++token) {
      std::vector<float> a = plain.Decode(token), b = loud.Decode(token);
      a[9] = b[9] = 0;
      ASSERT_EQ(a, b);
    }
  }
}

TEST(Kivi, ConstantBlocksAreExact) {
  ForEach([](Group& group) {
    for (int token = 0; token < kGroupTokens; ++token) {
      for (int i = 0; i < group.width; ++i) group.At(token, i) = group.side == Side::kKey ? 0.25f * (i - 7) : 0.25f * (token - 50);
    }
    ASSERT_FALSE(group.Encode(kAll).Any());
    for (int token = 0; token < kGroupTokens; ++token) {
      const std::vector<float> back = group.Decode(token);
      for (int i = 0; i < group.width; ++i) ASSERT_EQ(back[i], group.At(token, i));
    }
  });
}

TEST(Kivi, ZerosOfEitherSignAreZeroBytes) {
  ForEach([](Group& group) {
    for (size_t i = 0; i < group.rows.size(); ++i) group.rows[i] = i % 3 == 0 ? -0.0f : 0.0f;
    ASSERT_FALSE(group.Encode(kAll).Any());
    for (size_t i = 0; i < group.bytes.size(); ++i) ASSERT_EQ(group.bytes.data()[i], 0) << i;
  });
}

TEST(Kivi, RowsThatNoHalfHoldsFailAndHarmNobody) {
  ForEach([](Group& group) {
    const float damages[] = {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity(),
                             -std::numeric_limits<float>::infinity(), 65520.0f, -1e30f};
    TokenMask damaged;
    for (int n = 0; n < 5; ++n) {
      group.At(25 * n + 2, n * 7 % group.width) = damages[n];
      damaged.Add(25 * n + 2);
    }
    EXPECT_EQ(group.Encode(kAll), damaged);
    group.ExpectHalfAStep(kAll & ~damaged, kAll & ~damaged);
    for (int token = 0; token < kGroupTokens; ++token) {
      for (float x : group.Decode(token)) ASSERT_TRUE(std::isfinite(x));
    }
    // A block of nothing else.
    Group lost(group.codec.name, group.width, group.side, 94);
    for (int token = 32; token < 64; ++token) lost.At(token, 0) = damages[token % 5];
    EXPECT_EQ(lost.Encode(kAll), TokenMask::First(64) & ~TokenMask::First(32));
    lost.ExpectHalfAStep(kAll & ~TokenMask::First(64), kAll);
  });
}

// Only the tokens of the mask are read and written.
TEST(Kivi, OtherTokensAreNeitherReadNorChosenFor) {
  ForEach([](Group& group) {
    const TokenMask some = Tokens({0, 5, 31, 64, 100, 127});
    for (int token = 0; token < kGroupTokens; ++token) {
      for (int i = 0; !some.Has(token) && i < group.width; ++i) group.At(token, i) = 5e4f;
    }
    ASSERT_FALSE(group.Encode(some).Any());
    group.ExpectHalfAStep(some, some);
  });
}

TEST(Kivi, LateRowsFitOrFailAndPackedRowsKeepTheirMeaning) {
  ForEach([](Group& group) {
    const TokenMask first = TokenMask::First(20) | Tokens({40, 41, 42});
    ASSERT_FALSE(group.Encode(first).Any());
    std::vector<std::vector<float>> before;
    for (int token = 0; token < kGroupTokens; ++token) before.push_back(group.Decode(token));

    // 20 is a packed row again, 21 lies outside of its block in one channel; 43 as well; 70 has a block of its own.
    for (int i = 0; i < group.width; ++i) {
      group.At(20, i) = group.At(7, i);
      group.At(21, i) = group.At(8, i);
      group.At(43, i) = group.At(41, i);
    }
    group.At(21, group.width - 1) = 1000;
    group.At(43, 0) = -1000;
    const TokenMask failed = group.Encode(Tokens({20, 21, 43, 70}), first);
    EXPECT_EQ(failed, group.side == Side::kKey ? Tokens({21, 43}) : TokenMask());
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!first.Has(token)) continue;
      ASSERT_EQ(group.Decode(token), before[static_cast<size_t>(token)]) << token;
    }
    EXPECT_EQ(group.Decode(20), before[7]);
    group.ExpectHalfAStep(Tokens({20, 70}), first | Tokens({20, 70}));

    // Rows that are packed anew are free of what they were; a block of only such rows gets new levels.
    for (int i = 0; i < group.width; ++i) {
      for (int token : {40, 41, 42, 43}) group.At(token, i) = static_cast<float>(10 * token + i);
    }
    EXPECT_FALSE(group.Encode(Tokens({40, 41, 42, 43}), first | Tokens({20, 70})).Any());
    group.ExpectHalfAStep(Tokens({40, 41, 42, 43}), Tokens({40, 41, 42, 43}));
  });
}

// Uniform values between the ends: step^2 / 12, and the range of 32 of them is 31/33 of the whole.
TEST(Kivi, DistortionIsTheKnownOne) {
  for (const char* name : kNames) {
    for (Side side : {Side::kKey, Side::kValue}) {
      double error = 0;
      constexpr int kRuns = 20, kWidth = 128;
      Random random(95);
      for (int run = 0; run < kRuns; ++run) {
        Group group(name, kWidth, side, 1);
        for (float& x : group.rows) x = static_cast<float>(random.Uniform());
        group.Encode(kAll);
        for (int token = 0; token < kGroupTokens; ++token) {
          const std::vector<float> back = group.Decode(token);
          for (int i = 0; i < kWidth; ++i) error += std::pow(back[i] - group.At(token, i), 2) / (kRuns * kGroupTokens * kWidth);
        }
      }
      // Of 32 values two are levels. E range^2 of 32 uniform values: 31 * 32 / (33 * 34).
      const double last = (1 << Find(name).code_bits) - 1;
      const double expected = 30.0 / 32 * (31.0 * 32) / (33.0 * 34) / (12 * last * last);
      EXPECT_NEAR(error, expected, 0.03 * expected) << name;
    }
  }
}

}  // namespace
}  // namespace swivel
