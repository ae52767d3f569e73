#include "tune/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "base/hash.h"
#include "base/random.h"

namespace swivel {
namespace {

constexpr int kPositions = 512;

std::vector<TuneLayer> Model(int num_layers = 30) {
  return std::vector<TuneLayer>(static_cast<size_t>(num_layers), TuneLayer{3, 64, 64, 8192});
}

// The mean KLD of a made-up model, where a bit of K or V divides that side's part by four.
using Truth = std::function<double(const CacheSpec&)>;
double PartOf(const CacheSpec& spec, Side side, double weight) {
  double sum = 0;
  for (int layer = 0; layer < 30; ++layer) sum += std::pow(4.0, -GetCodec(spec.CodecFor(side, layer, 30)).code_bits);
  return weight * sum / 30;
}
double Plain(const CacheSpec& spec) { return PartOf(spec, Side::kKey, 1) + PartOf(spec, Side::kValue, 1); }

// A hard token is hard for all caches; `own` is what each adds of its own.
std::vector<float> Measure(const Truth& truth, const std::string& text, int chunk, double own) {
  Random shared(static_cast<uint64_t>(chunk) + 1), alone(Hash64(text) + static_cast<uint64_t>(chunk));
  const double mean = truth(ParseSpec(text).value());
  std::vector<float> values(kPositions);
  for (float& value : values) {
    const double common = std::exp(0.8 * shared.Normal() - 0.32), noise = std::exp(own * alone.Normal() - 0.5 * own * own);
    value = static_cast<float>(mean * common * noise);
  }
  return values;
}

struct Ended {
  TuneOutcome outcome;
  std::vector<TuneRow> rows;
  std::vector<std::string> stages;
  int runs = 0;
};

Ended RunSearch(const TuneProblem& problem, const Truth& truth, double own = 0.1) {
  TuneResults results;
  Ended ended;
  for (int calls = 0; calls < 10; ++calls) {
    const StatusOr<TuneStep> step = NextStep(problem, results);
    EXPECT_TRUE(step.ok()) << step.status().message();
    if (!step.ok()) return ended;
    EXPECT_NE(step.value().request.has_value(), step.value().outcome.has_value());
    if (step.value().outcome) {
      ended.outcome = *step.value().outcome;
      ended.rows = step.value().rows;
      ended.runs = results.size();
      return ended;
    }
    const TuneRequest& request = *step.value().request;
    ended.stages.push_back(request.stage);
    bool any = false;
    for (const std::string& spec : request.specs) {
      EXPECT_EQ(ParseSpec(spec)->ToString(), spec);
      for (int chunk = request.first_chunk; chunk <= request.last_chunk; ++chunk) {
        EXPECT_LT(chunk, problem.chunks);
        // Nothing before the confirmation sees its text.
        EXPECT_EQ(chunk >= problem.search_chunks, request.stage == "confirm");
        if (results.Find(spec, chunk) != nullptr) continue;
        any = true;
        results.Add(spec, chunk, Measure(truth, spec, chunk, own));
      }
    }
    EXPECT_TRUE(any) << request.stage;
  }
  ADD_FAILURE() << "the search does not end";
  return ended;
}

TuneProblem Bits(double bits) {
  TuneProblem problem;
  problem.limit.bits = bits;
  problem.layers = Model();
  return problem;
}

TEST(Search, CostsAreThoseOfTheBytes) {
  const TuneCost turbo = CostOf(ParseSpec("turbo4").value(), Model());
  EXPECT_DOUBLE_EQ(turbo.bits, 4.25);
  EXPECT_EQ(turbo.bytes, int64_t{30} * 3 * 128 * 8192 * 17 / 4 / 8);
  const TuneCost balanced = CostOf(ParseSpec("balanced").value(), Model());
  EXPECT_NEAR(balanced.bits, 3.25, 0.02);
  // 4 sinks, a window of 128 and a group of 128, two bytes a value.
  EXPECT_NEAR(static_cast<double>(balanced.bytes), 30.0 * 3 * 128 * (8192 * balanced.bits / 8 + 2 * 260), 2);
  // Layers of other widths weigh by their values.
  const std::vector<TuneLayer> two = {{1, 64, 64, 1024}, {1, 192, 64, 1024}};
  EXPECT_DOUBLE_EQ(CostOf(ParseSpec("turbo4,layer=1:f16").value(), two).bits, (4.25 * 128 + 16 * 256) / 384);
  EXPECT_EQ(CostOf(ParseSpec("turbo4").value(), {}).bits, 0);
}

TEST(Search, EqualCachesGiveThePreset) {
  const Ended ended = RunSearch(Bits(3.24), Plain);
  EXPECT_TRUE(ended.outcome.is_preset);
  EXPECT_EQ(ended.outcome.preset, "balanced");
  EXPECT_EQ(ended.outcome.spec, ParseSpec("balanced")->ToString());
  EXPECT_NE(ended.outcome.reason.find("balanced"), std::string::npos);
  EXPECT_EQ(ended.stages, (std::vector<std::string>{"widths", "policies", "layers", "finals", "confirm"}));
  EXPECT_TRUE(ended.outcome.keeps_limit);
  ASSERT_TRUE(ended.outcome.kld && ended.outcome.kld->error);
  EXPECT_NEAR(ended.outcome.kld->mean, 2 * std::pow(4.0, -3), 0.2 * 2 * std::pow(4.0, -3));
}

TEST(Search, ABetterPolicyWins) {
  const Ended ended = RunSearch(Bits(3.24), [](const CacheSpec& spec) { return Plain(spec) * (spec.transform == Transform::kDiagonal ? 0.7 : 1); });
  EXPECT_FALSE(ended.outcome.is_preset);
  EXPECT_NE(ended.outcome.spec.find("transform=eq"), std::string::npos);
  EXPECT_EQ(ended.outcome.against_preset.verdict, Verdict::kBetter);
  EXPECT_NEAR(ended.outcome.against_preset.ratio, 0.7, 0.05);
  for (const TuneRow& row : ended.rows) EXPECT_TRUE(row.fits && row.cost.bits <= 3.24) << row.spec;
}

TEST(Search, PoliciesThatHelpAreCombined) {
  const Ended ended = RunSearch(Bits(3.3), [](const CacheSpec& spec) {
    return Plain(spec) * (spec.halves ? 1 : 0.8) * (spec.sinks == 16 ? 0.8 : 1) * (spec.group_mean ? 1 : 1.3);
  });
  EXPECT_NE(ended.outcome.spec.find("halves=off"), std::string::npos) << ended.outcome.spec;
  EXPECT_NE(ended.outcome.spec.find("sinks=16"), std::string::npos) << ended.outcome.spec;
  EXPECT_EQ(ended.outcome.spec.find("group_mean=off"), std::string::npos) << ended.outcome.spec;
}

// Luck on the chunks of the search is not enough.
TEST(Search, NoiseNeverBeatsThePreset) {
  for (const double own : {0.3, 1.0}) {
    for (double bits : {2.3, 2.8, 3.3, 4.3}) {
      const Ended ended = RunSearch(Bits(bits), [](const CacheSpec& spec) { return 0.03 + 0 * Plain(spec); }, own);
      EXPECT_TRUE(ended.outcome.is_preset) << bits << " " << own << ": " << ended.outcome.spec;
    }
  }
}

TEST(Search, WidthsGoWhereTheyHelp) {
  const Ended keys = RunSearch(Bits(3.3), [](const CacheSpec& spec) { return PartOf(spec, Side::kKey, 9) + PartOf(spec, Side::kValue, 0.1); });
  EXPECT_EQ(ParseSpec(keys.outcome.spec)->k, CodecId::kTcq4);
  EXPECT_EQ(ParseSpec(keys.outcome.spec)->v, CodecId::kTcq2);
  const Ended values = RunSearch(Bits(3.3), [](const CacheSpec& spec) { return PartOf(spec, Side::kKey, 0.1) + PartOf(spec, Side::kValue, 9); });
  EXPECT_EQ(ParseSpec(values.outcome.spec)->v, CodecId::kTcq4);
}

TEST(Search, BitsLeftOverGoToLayers) {
  const Ended ended = RunSearch(Bits(3.5), Plain);
  EXPECT_FALSE(ended.outcome.is_preset);
  EXPECT_FALSE(ParseSpec(ended.outcome.spec)->layers.empty()) << ended.outcome.spec;
  EXPECT_LE(CostOf(ParseSpec(ended.outcome.spec).value(), Model()).bits, 3.5 + 1e-9);
  // No layer is left out of the count.
  EXPECT_GT(CostOf(ParseSpec(ended.outcome.spec).value(), Model()).bits, 3.45);
}

TEST(Search, NothingWithinTheLimitIsAnError) {
  const StatusOr<TuneStep> step = NextStep(Bits(2.0), {});
  ASSERT_FALSE(step.ok());
  EXPECT_EQ(step.status().code(), StatusCode::kInvalidArgument);
  EXPECT_NE(step.status().message().find("tcq2"), std::string::npos) << step.status().message();
  TuneProblem bytes = Bits(0);
  bytes.limit = {.bits = {}, .bytes = 1000, .kld = {}};
  EXPECT_FALSE(NextStep(bytes, {}).ok());
}

// Below the smallest preset there is something left, and no preset to beat.
TEST(Search, BelowThePresets) {
  const Ended ended = RunSearch(Bits(2.21), Plain);
  EXPECT_EQ(ended.outcome.preset, "");
  EXPECT_FALSE(ended.outcome.is_preset);
  EXPECT_NE(ended.outcome.spec.find("group_mean=off"), std::string::npos);
}

TEST(Search, BytesCountTheWindow) {
  TuneProblem problem;
  problem.layers = Model();
  problem.limit.bytes = CostOf(ParseSpec("balanced").value(), Model()).bytes + int64_t{30} * 3 * 128 * 2 * 130;
  const Ended ended = RunSearch(problem, [](const CacheSpec& spec) { return Plain(spec) * (spec.window >= 256 ? 0.8 : 1); });
  EXPECT_EQ(ParseSpec(ended.outcome.spec)->window, 256) << ended.outcome.spec;
  for (const TuneRow& row : ended.rows) EXPECT_LE(row.cost.bytes, *problem.limit.bytes);
}

TEST(Search, ALimitOnKldGivesTheCheapestThatKeepsIt) {
  TuneProblem problem;
  problem.layers = Model();
  problem.limit.kld = 2 * std::pow(4.0, -3) * 1.15;
  // Whatever is left out costs as much as it would save.
  const auto all_needed = [](const CacheSpec& spec) {
    return Plain(spec) * (spec.window < 128 ? 1.5 : 1) * (spec.halves && spec.transform == Transform::kFull ? 1 : 1.5);
  };
  const Ended plain = RunSearch(problem, [&](const CacheSpec& spec) { return all_needed(spec) * (spec.group_mean ? 1 : 1.5); });
  EXPECT_TRUE(plain.outcome.keeps_limit);
  EXPECT_EQ(plain.outcome.spec, ParseSpec("balanced")->ToString()) << plain.outcome.reason;
  EXPECT_TRUE(plain.outcome.is_preset);

  // With one segment a key it does with less; group means alone save less than is worth leaving the preset for.
  const Ended cheaper = RunSearch(problem, [](const CacheSpec& spec) { return Plain(spec) * (spec.window < 128 || spec.transform != Transform::kFull ? 1.5 : 1) * (spec.halves ? 1 : 0.9); });
  EXPECT_NE(cheaper.outcome.spec.find("halves=off"), std::string::npos) << cheaper.outcome.spec;
  EXPECT_FALSE(cheaper.outcome.is_preset);

  problem.limit.kld = 1e-6;
  const Ended none = RunSearch(problem, Plain);
  EXPECT_FALSE(none.outcome.keeps_limit);
  EXPECT_EQ(ParseSpec(none.outcome.spec)->k, CodecId::kTcq4);
}

TEST(Search, KeepsToItsRuns) {
  for (const int most : {0, 16, 20, 24, 1000}) {
    TuneProblem problem = Bits(3.5);
    problem.most_runs = most;
    const Ended ended = RunSearch(problem, Plain);
    const TuneRuns runs = RunsOf(problem);
    EXPECT_LE(ended.runs, std::max(most, runs.least)) << most;
    problem.limit = {.bits = {}, .bytes = {}, .kld = 0.05};
    EXPECT_LE(RunSearch(problem, Plain).runs, std::max(most, RunsOf(problem).least)) << most;
  }
  EXPECT_LE(RunSearch(Bits(3.3), Plain).runs, RunsOf(Bits(3.3)).most);
}

TEST(Search, ChunksAreSpreadAndDiffer) {
  for (const int chunks : {2, 3, 6, 7, 16, 100}) {
    for (const int64_t slots : {int64_t{chunks}, int64_t{chunks} + 1, int64_t{3} * chunks - 1, int64_t{1} << 40}) {
      std::set<int64_t> seen;
      for (int chunk = 0; chunk < chunks; ++chunk) {
        const int64_t slot = SlotOfChunk(chunk, chunks, slots);
        EXPECT_GE(slot, 0);
        EXPECT_LT(slot, slots);
        seen.insert(slot);
      }
      EXPECT_EQ(static_cast<int>(seen.size()), chunks) << chunks << " of " << slots;
    }
  }
  EXPECT_EQ(SlotOfChunk(1, 6, 600), 400);
}

TEST(Search, BrokenCachesLose) {
  const Ended ended = RunSearch(Bits(3.24), [](const CacheSpec& spec) { return spec.transform == Transform::kDiagonal ? std::nan("") : Plain(spec); });
  EXPECT_TRUE(ended.outcome.is_preset);
}

}  // namespace
}  // namespace swivel
