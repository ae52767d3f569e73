// The figures of `swivel distortion` against theory: values of TurboQuant with the scales of DRIVE/EDEN at d = 128 that were simulated
// independently with Haar rotations, and integrals over the normal density for the formats of llama.cpp.
#include "eval/distortion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "eval/vector_math.h"

namespace swivel {
namespace {

const Codec& Find(const std::string& name) { return **FindCodec(name); }

DistortionOptions Options(ScaleMode scale = ScaleMode::kMatched) {
  DistortionOptions options;
  options.scale = scale;
  options.target = SupportedTargets().back();
  options.time = false;
  return options;
}

struct Expected {
  const char* codec;
  ScaleMode scale;
  double mse, ip_var, ip_bias;
};

TEST(DistortionMeter, EqualsTheoryAtWidth128) {
  // Printed values have three or four digits: half a unit of the last one is added to the 1.5 %. The simulated variance is that of queries
  // orthogonal to the vector, which is d / (d - 1) times that of queries of all directions.
  const Expected table[] = {
      {"turbo2", ScaleMode::kMatched, .1188, .1154, -.059},   {"turbo3", ScaleMode::kMatched, .0338, .0336, -.017},
      {"turbo4", ScaleMode::kMatched, .0092, .0093, -.005},   {"turbo2", ScaleMode::kUnbiased, .1305, .1308, 0},
      {"turbo3", ScaleMode::kUnbiased, .0347, .0348, 0},      {"turbo4", ScaleMode::kUnbiased, .0093, .0093, 0},
      {"turbo2", ScaleMode::kLeastSquares, .1153, 0, -.1153}, {"turbo3", ScaleMode::kLeastSquares, .0335, 0, -.0335},
  };
  const VectorSet set = MakeVectors(SourceKind::kGaussian, 128, 16384, 5);
  const DistortionMeter meter(set, 5);
  for (const Expected& expected : table) {
    SCOPED_TRACE(std::string(expected.codec) + " " + ScaleModeName(expected.scale));
    const DistortionRow row = meter.Measure(Find(expected.codec), Options(expected.scale));
    ASSERT_EQ(row.reason, "");
    EXPECT_NEAR(*row.mse, expected.mse, 0.015 * expected.mse + 5e-5);
    if (expected.ip_var > 0) {
      EXPECT_NEAR(*row.ip_var_times_d * 128 / 127, expected.ip_var, 0.015 * expected.ip_var + 5e-5);
    }
    EXPECT_NEAR(*row.ip_bias, expected.ip_bias, 0.015 * std::fabs(expected.ip_bias) + 5e-4 + 4 * *row.ip_bias_err);
    EXPECT_NEAR(*row.mse_centered, *row.mse, 0.005 * *row.mse);  // norms of Gaussian vectors are nearly equal
    EXPECT_LT(*row.mse_err, 0.003 * *row.mse);
    EXPECT_GT(*row.mse_err, 0.0003 * *row.mse);
  }
}

// f16 rounds a value of [2^e, 2^(e+1)) to a multiple of 2^(e-10): mean squared error 2^(2e-20) / 12.
TEST(DistortionMeter, EqualsTheoryForF16) {
  double expected = 0;
  constexpr double kStep = 1e-4;
  for (double x = kStep / 2; x < 9; x += kStep) {
    expected += 2 * kStep * std::exp(-x * x / 2) / std::sqrt(2 * M_PI) * std::exp2(2 * std::floor(std::log2(x)) - 20) / 12;
  }
  const VectorSet set = MakeVectors(SourceKind::kGaussian, 256, 8192, 6);
  EXPECT_NEAR(*DistortionMeter(set, 6).Measure(Find("f16"), Options()).mse_centered, expected, 0.015 * expected);
}

// q8_0 rounds 32 values to multiples of their largest / 127: mean squared error E[max^2] / 127^2 / 12, of which the largest itself has
// none.
TEST(DistortionMeter, EqualsTheoryForQ8) {
  double largest_square = 0;
  constexpr double kStep = 1e-3;
  for (double x = kStep / 2; x < 9; x += kStep) largest_square += kStep * 2 * x * (1 - std::pow(std::erf(x / std::sqrt(2)), 32));
  const double expected = largest_square / (127 * 127) / 12 * 31 / 32;
  const VectorSet set = MakeVectors(SourceKind::kGaussian, 256, 8192, 7);
  EXPECT_NEAR(*DistortionMeter(set, 7).Measure(Find("q8_0"), Options()).mse_centered, expected, 0.015 * expected);
}

// A random unit query sees a d-th of the squared error: part of it is the slope, the rest the variance around it.
TEST(DistortionMeter, InnerProductsAgreeWithTheSquaredError) {
  for (const SourceKind kind : {SourceKind::kGaussian, SourceKind::kHeavy}) {
    const VectorSet set = MakeVectors(kind, 64, 8192, 8);
    const DistortionMeter meter(set, 8);
    for (const Codec* codec : AllCodecs()) {
      const DistortionRow row = meter.Measure(*codec, Options());
      if (!row.mse) continue;
      EXPECT_NEAR(*row.ip_var_times_d + *row.ip_bias * *row.ip_bias, *row.mse, 0.03 * *row.mse) << codec->name;
    }
  }
}

TEST(DistortionMeter, StatedErrorsAreTrue) {
  std::vector<double> values;
  double stated = 0;
  constexpr int kRuns = 40;
  for (uint64_t seed = 0; seed < kRuns; ++seed) {
    const VectorSet set = MakeVectors(SourceKind::kGaussian, 64, 1024, seed);
    const DistortionRow row = DistortionMeter(set, seed).Measure(Find("turbo3"), Options());
    values.push_back(*row.mse);
    stated += *row.mse_err / kRuns;
  }
  double sum = 0, squares = 0;
  for (const double value : values) sum += value, squares += value * value;
  const double spread = std::sqrt((squares - sum * sum / kRuns) / (kRuns - 1));
  EXPECT_NEAR(spread / stated, 1, 0.4);
}

// A common bias takes the bits: relative to the whole vector the error looks as ever, relative to what differs it does not.
TEST(DistortionMeter, ABiasHidesInTheRelativeError) {
  const VectorSet set = MakeVectors(SourceKind::kBiased, 128, 4096, 9);
  const DistortionMeter meter(set, 9);
  const DistortionRow turbo = meter.Measure(Find("turbo3"), Options());
  EXPECT_LT(*turbo.mse, 0.06);
  EXPECT_NEAR(*turbo.mse_centered / *turbo.mse, (kBiasNorm * kBiasNorm + 128) / 128, 30);
  EXPECT_GT(*turbo.softmax_kl, 1);
  EXPECT_LT(*meter.Measure(Find("f16"), Options()).softmax_kl, 1e-3);
}

TEST(DistortionMeter, TargetsAgree) {
  const VectorSet set = MakeVectors(SourceKind::kHeavy, 96, 600, 10);
  const DistortionMeter meter(set, 10);
  for (const Codec* codec : AllCodecs()) {
    DistortionOptions options = Options();
    const DistortionRow best = meter.Measure(*codec, options);
    options.target = Target::kPortable;
    const DistortionRow portable = meter.Measure(*codec, options);
    EXPECT_EQ(best.mse, portable.mse) << codec->name;
    EXPECT_EQ(best.softmax_kl, portable.softmax_kl) << codec->name;
  }
}

TEST(DistortionMeter, SaysWhyItCannotMeasure) {
  const VectorSet odd = MakeVectors(SourceKind::kGaussian, 80, 64, 11);
  const DistortionRow row = DistortionMeter(odd, 11).Measure(Find("q8_0"), Options());
  EXPECT_NE(row.reason.find("head width 80"), std::string::npos) << row.reason;
  EXPECT_FALSE(row.mse || row.bits || row.softmax_kl || row.encode_ns);

  VectorSet large = MakeVectors(SourceKind::kGaussian, 64, 64, 12);
  large.values[64 * 7 + 3] = -1e6f;  // beyond f16
  const DistortionRow infinite = DistortionMeter(large, 12).Measure(Find("f16"), Options());
  EXPECT_NE(infinite.reason.find("vector 7"), std::string::npos) << infinite.reason;
  EXPECT_NE(infinite.reason.find("1e+06"), std::string::npos) << infinite.reason;
  EXPECT_FALSE(infinite.mse || infinite.ip_bias || infinite.softmax_kl);
  EXPECT_EQ(DistortionMeter(large, 12).Measure(Find("turbo4"), Options()).reason, "");
}

TEST(DistortionMeter, SmallSetsGiveWhatTheyCan) {
  for (const size_t rows : {1, 3, 15, 16, 130, 513}) {
    const VectorSet set = MakeVectors(SourceKind::kGaussian, 64, rows, 13);
    DistortionOptions options = Options();
    options.time = true;
    const DistortionRow row = DistortionMeter(set, 13).Measure(Find("turbo4"), options);
    ASSERT_TRUE(row.mse) << rows;
    EXPECT_NEAR(*row.mse, 0.009, 0.006) << rows;
    EXPECT_EQ(row.softmax_kl.has_value(), rows >= SoftmaxProbe::kLeastKeys) << rows;
    EXPECT_EQ(row.mse_err.has_value(), rows >= 130) << rows;
    EXPECT_GT(*row.encode_ns, 0);
    EXPECT_GT(*row.encode_scalar_ns, 0);
    EXPECT_GT(*row.decode_ns, 0);
  }
  // All alike: there is no attention to disturb and nothing around the mean.
  VectorSet same = MakeVectors(SourceKind::kGaussian, 64, 1, 14);
  for (int i = 0; i < 6; ++i) same.values.insert(same.values.end(), same.values.begin(), same.values.end());
  const DistortionRow row = DistortionMeter(same, 14).Measure(Find("turbo4"), Options());
  EXPECT_TRUE(row.mse);
  EXPECT_FALSE(row.softmax_kl);
}

std::vector<std::span<const float>> Blocks(const VectorSet& set, size_t rows) {
  std::vector<std::span<const float>> blocks;
  const size_t values = rows * static_cast<size_t>(set.width);
  for (size_t begin = 0; begin + values <= set.values.size(); begin += values) blocks.emplace_back(&set.values[begin], values);
  return blocks;
}

TEST(SoftmaxProbe, NeedlesHoldHalfOfTheMass) {
  for (const int width : {64, 80, 128, 256}) {
    const VectorSet set = MakeVectors(SourceKind::kGaussian, width, 1024, 21);
    const SoftmaxProbe probe(Blocks(set, 512), width, 16, 21);
    for (size_t block = 0; block < 2; ++block) {
      ASSERT_EQ(probe.trials(block).size(), 16u);
      for (const SoftmaxProbe::Trial& trial : probe.trials(block)) {
        EXPECT_NEAR(trial.needle_mass, 0.5, 1e-3);
        // Four logits carry that mass; the others have the standard deviation that was asked for.
        std::vector<float> logits = trial.logits;
        std::sort(logits.begin(), logits.end());
        double sum = 0, squares = 0;
        for (size_t i = 0; i + SoftmaxProbe::kNeedles < logits.size(); ++i) sum += logits[i], squares += logits[i] * logits[i];
        const double count = static_cast<double>(logits.size() - SoftmaxProbe::kNeedles);
        EXPECT_NEAR(std::sqrt(squares / count - sum * sum / count / count), SoftmaxProbe::kLogitDeviation, 0.05);
      }
    }
  }
}

TEST(SoftmaxProbe, NothingChangedIsNoDivergence) {
  VectorSet set = MakeVectors(SourceKind::kHeavy, 64, 512, 22);
  const SoftmaxProbe probe(Blocks(set, 512), 64, 16, 22);
  std::vector<double> divergences;
  probe.Divergences(0, set.values, &divergences);
  ASSERT_EQ(divergences.size(), 16u);
  for (const double divergence : divergences) EXPECT_EQ(divergence, 0);
  // A shift of all keys is a shift of all logits.
  for (size_t i = 0; i < set.values.size(); ++i) set.values[i] += static_cast<float>(i % 64);
  divergences.clear();
  probe.Divergences(0, set.values, &divergences);
  for (const double divergence : divergences) EXPECT_LT(divergence, 1e-9);
}

// Independent noise of variance s^2 on logits: KL = s^2 / 2 (1 - sum p^2) to second order, and here s = noise * ||q||.
TEST(SoftmaxProbe, SmallNoiseGivesHalfItsVariance) {
  const VectorSet set = MakeVectors(SourceKind::kGaussian, 64, 512 * 16, 23);
  const std::vector<std::span<const float>> blocks = Blocks(set, 512);
  const SoftmaxProbe probe(blocks, 64, 32, 23);
  constexpr double kNoise = 0.01;
  Random random(23);
  std::vector<double> divergences;
  double expected = 0;
  for (size_t block = 0; block < blocks.size(); ++block) {
    std::vector<float> keys(blocks[block].begin(), blocks[block].end());
    for (float& value : keys) value += static_cast<float>(kNoise) * random.Normal();
    probe.Divergences(block, keys, &divergences);
    for (const SoftmaxProbe::Trial& trial : probe.trials(block)) {
      const double lse = LogSumExp(trial.logits);
      const double squares = SumOf(trial.logits.size(), [&](size_t i) { return std::exp(2 * (trial.logits[i] - lse)); });
      expected += 0.5 * kNoise * kNoise * Dot(trial.query, trial.query) * (1 - squares);
    }
  }
  const std::optional<MeanError> mean = probe.Mean(divergences);
  ASSERT_TRUE(mean && mean->error);
  expected /= static_cast<double>(divergences.size());
  EXPECT_NEAR(mean->mean, expected, 4 * *mean->error);
  EXPECT_LT(*mean->error, 0.06 * expected);
}

}  // namespace
}  // namespace swivel
