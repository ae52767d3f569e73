#include "base/random.h"

#include <gtest/gtest.h>

#include "base/test_moments.h"

namespace swivel {
namespace {

TEST(Random, SplitMixGivesItsPublishedValues) {
  // The first outputs of the reference implementation for state 0.
  EXPECT_EQ(SplitMix64(0), 0xe220a8397b1dcdafull);
  EXPECT_EQ(SplitMix64(1), 0x6e789e6aa1b965f4ull);
  EXPECT_EQ(SplitMix64(2), 0x06c45d188009454full);
}

TEST(Random, NormalHasTheMomentsOfAGaussian) {
  Random random(3);
  ExpectGaussianMoments([&random](int) { return random.Normal(); });
}

TEST(Random, BelowCoversItsRangeOnly) {
  Random random(4);
  int seen[7] = {};
  for (int i = 0; i < 7000; ++i) {
    const int x = random.Below(7);
    ASSERT_TRUE(x >= 0 && x < 7) << x;
    ++seen[x];
  }
  for (int count : seen) EXPECT_NEAR(count, 1000, 150);
}

}  // namespace
}  // namespace swivel
