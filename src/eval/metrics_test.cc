#include "eval/metrics.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace swivel {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();

double Kl(const std::vector<float>& p, const std::vector<float>& q) { return KlDivergence(p, LogSumExp(p), q, LogSumExp(q)); }

TEST(LogSumExp, ClosedForms) {
  EXPECT_DOUBLE_EQ(LogSumExp(std::vector<float>(8, 0.0f)), std::log(8.0));
  EXPECT_DOUBLE_EQ(LogSumExp(std::vector<float>{3.5f}), 3.5);
  // Shifts pass through and large logits do not overflow.
  EXPECT_DOUBLE_EQ(LogSumExp(std::vector<float>(4, 1000.0f)), 1000 + std::log(4.0));
  EXPECT_DOUBLE_EQ(LogSumExp(std::vector<float>{0.0f, -kInfinity}), 0.0);
}

TEST(KlDivergence, ClosedForms) {
  // p = (3/4, 1/4), q = (1/2, 1/2).
  const std::vector<float> p = {static_cast<float>(std::log(3.0)), 0.0f};
  EXPECT_NEAR(Kl(p, {0.0f, 0.0f}), 0.75 * std::log(1.5) + 0.25 * std::log(0.5), 1e-7);
  EXPECT_NEAR(Kl({0.0f, 0.0f}, p), 0.5 * std::log(0.5 / 0.75) + 0.5 * std::log(0.5 / 0.25), 1e-7);
  EXPECT_EQ(Kl(p, p), 0.0);
  // A constant added to all logits changes nothing.
  EXPECT_NEAR(Kl(p, {7.0f, 7.0f}), Kl(p, {0.0f, 0.0f}), 1e-12);
}

TEST(KlDivergence, SmallShiftsFollowTheSecondOrderTerm) {
  // KL(p || softmax(log p + e)) = Var_p(e) / 2 + O(e^3); for two tokens p(1-p) e^2 / 2.
  const std::vector<float> p = {0.5f, 0.0f};
  const double probability = 1 / (1 + std::exp(-0.5));
  const double shift = std::ldexp(1.0, -9);
  EXPECT_NEAR(Kl(p, {static_cast<float>(0.5 + shift), 0.0f}) / (probability * (1 - probability) * shift * shift / 2), 1.0, 2e-3);
}

TEST(KlDivergence, RuledOutTokens) {
  const std::vector<float> p = {0.0f, -kInfinity};
  EXPECT_EQ(Kl(p, p), 0.0);
  EXPECT_NEAR(Kl(p, {0.0f, 0.0f}), std::log(2.0), 1e-12);
  EXPECT_EQ(Kl({0.0f, 0.0f}, p), std::numeric_limits<double>::infinity());
}

TEST(KlDivergence, NanStaysVisible) { EXPECT_TRUE(std::isnan(Kl({0.0f, 0.0f}, {0.0f, std::nanf("")}))); }

TEST(ArgMax, FirstOfEqual) { EXPECT_EQ(ArgMax(std::vector<float>{1, 3, 3, 2}), 1u); }

TEST(Percentile, InterpolatesOrderStatistics) {
  const std::vector<double> sorted = {0, 10, 20, 30, 40};
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0), 0);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0.5), 20);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 0.9), 36);
  EXPECT_DOUBLE_EQ(Percentile(sorted, 1), 40);
  EXPECT_DOUBLE_EQ(Percentile(std::vector<double>{7}, 0.99), 7);
  EXPECT_DOUBLE_EQ(Median({4, 1, 3, 2}), 2.5);
}

TEST(MeanByBlocks, EqualBlocksGiveTheUsualStandardError) {
  // Blocks of two with means 1, 2, 3, 6: mean 3, variance of the means 14/3, error sqrt(14/3/4).
  const std::vector<double> values = {0, 2, 1, 3, 3, 3, 5, 7};
  const std::vector<size_t> runs = {8};
  const MeanError result = MeanByBlocks(values, runs, 2);
  EXPECT_DOUBLE_EQ(result.mean, 3);
  ASSERT_TRUE(result.error.has_value());
  EXPECT_DOUBLE_EQ(*result.error, std::sqrt(14.0 / 3 / 4));
}

TEST(MeanByBlocks, BlocksDoNotSpanRuns) {
  // Four runs of one block each, whatever the block length: means 1, 3, 1, 3 with variance 4/3, error sqrt(4/3/4).
  const std::vector<double> values = {1, 1, 1, 3, 3, 3, 1, 1, 1, 3, 3, 3};
  const std::vector<size_t> runs = {3, 3, 3, 3};
  const MeanError result = MeanByBlocks(values, runs, 64);
  EXPECT_DOUBLE_EQ(result.mean, 2);
  EXPECT_DOUBLE_EQ(*result.error, std::sqrt(1.0 / 3));
}

TEST(BlockLength, KeepsAtLeastEightBlocksWhereItCan) {
  EXPECT_EQ(BlockLength(3069), 64u);
  EXPECT_EQ(BlockLength(512), 64u);
  EXPECT_EQ(BlockLength(128), 16u);
  EXPECT_EQ(BlockLength(10), 8u);
}

TEST(MeanByBlocks, OneBlockHasNoError) {
  const std::vector<double> values = {1, 2, 3};
  const std::vector<size_t> runs = {3};
  EXPECT_FALSE(MeanByBlocks(values, runs, 64).error.has_value());
}

TEST(MeanByBlocks, CoversTheTruthOfCorrelatedSeries) {
  // AR(1) with coefficient 0.9: sd/sqrt(n) is 4.4 times too small; blocks of 64 must come close to the spread of means over trials.
  std::mt19937 random(7);
  std::normal_distribution<double> noise;
  const std::vector<size_t> runs = {1024};
  double squared_means = 0, squared_errors = 0;
  constexpr int kTrials = 400;
  for (int trial = 0; trial < kTrials; ++trial) {
    std::vector<double> values(1024);
    double x = 0;
    for (int i = 0; i < 100; ++i) x = 0.9 * x + noise(random);
    for (double& value : values) value = x = 0.9 * x + noise(random);
    const MeanError result = MeanByBlocks(values, runs);
    squared_means += result.mean * result.mean;
    squared_errors += *result.error * *result.error;
  }
  EXPECT_NEAR(std::sqrt(squared_errors / squared_means), 1.0, 0.25);
}

TEST(Perplexity, OfAUniformModel) {
  const std::vector<double> values(256, std::log(50.0));
  const std::vector<size_t> runs = {256};
  const MeanError result = Perplexity(values, runs);
  EXPECT_NEAR(result.mean, 50, 1e-9);
  EXPECT_NEAR(*result.error, 0, 1e-9);
}

TEST(Summarize, LeavesOutWhatItCannotKnow) {
  EXPECT_FALSE(Summarize({}, {}).mean.has_value());
  const std::vector<double> values(128, 0.5);
  const std::vector<size_t> runs = {128};
  const Summary summary = Summarize(values, runs);
  EXPECT_DOUBLE_EQ(*summary.mean, 0.5);
  EXPECT_DOUBLE_EQ(*summary.p99, 0.5);
  EXPECT_FALSE(summary.p999.has_value());
}

TEST(Summarize, DamageIsCountedAndNotAveragedAway) {
  std::vector<double> values(128, 0.5);
  values[3] = std::nan("");
  const std::vector<size_t> runs = {128};
  const Summary summary = Summarize(values, runs);
  EXPECT_EQ(summary.invalid, 1u);
  EXPECT_TRUE(std::isnan(*summary.mean));
  EXPECT_FALSE(summary.median.has_value());
}

TEST(TopOf, OrdersTheFiveMostLikely) {
  const std::vector<float> logits = {0, 5, 2, 5, -1, 9, 3, 2, -8};
  EXPECT_EQ(TopOf(logits), (TopTokens{5, 1, 3, 6, 2}));  // the first of equals before
  EXPECT_EQ(TopOf(std::vector<float>{1, 2}), (TopTokens{1, 0, UINT32_MAX, UINT32_MAX, UINT32_MAX}));
  std::mt19937 random(3);
  std::normal_distribution<float> normal;
  std::vector<float> many(1000);
  for (float& value : many) value = normal(random);
  std::vector<uint32_t> order(many.size());
  for (uint32_t i = 0; i < order.size(); ++i) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return many[a] > many[b]; });
  const TopTokens top = TopOf(many);
  EXPECT_TRUE(std::equal(top.begin(), top.end(), order.begin()));
}

TEST(TopOverlap, CountsWhatBothName) {
  EXPECT_DOUBLE_EQ(TopOverlap({1, 2, 3, 4, 5}, {5, 4, 3, 2, 1}), 1);
  EXPECT_DOUBLE_EQ(TopOverlap({1, 2, 3, 4, 5}, {1, 9, 8, 7, 6}), 0.2);
  EXPECT_DOUBLE_EQ(TopOverlap({1, UINT32_MAX, UINT32_MAX, UINT32_MAX, UINT32_MAX}, {1, UINT32_MAX, 2, 3, 4}), 0.2);
}

TEST(MeansByPosition, GathersADepthFromAllRuns) {
  // Two runs of 32; a value is its position, plus 100 in the second run.
  std::vector<double> values;
  for (int run = 0; run < 2; ++run) {
    for (int i = 0; i < 32; ++i) values.push_back(64 + i + 100 * run);
  }
  const std::vector<size_t> runs = {32, 32};
  const std::vector<PositionBucket> buckets = MeansByPosition(values, runs, 64, 8);
  ASSERT_EQ(buckets.size(), 4u);  // of 8 positions, not 8 of 4
  EXPECT_EQ(buckets[1].begin, 72);
  EXPECT_EQ(buckets[1].end, 80);
  EXPECT_EQ(buckets[1].positions, 16u);
  EXPECT_DOUBLE_EQ(buckets[1].mean.mean, 75.5 + 50);
}

TEST(Summarize, SaysWhereTheWorstIs) {
  std::vector<double> values(128, 0.5);
  values[77] = 3;
  EXPECT_EQ(*Summarize(values, std::vector<size_t>{128}).max_at, 77u);
}

}  // namespace
}  // namespace swivel
