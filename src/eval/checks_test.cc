#include "eval/checks.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace swivel {
namespace {

// A report from a store that is filled by hand: the statistics without a model.
struct Scene {
  Store store;
  QualityOptions options;
  QualityReport report;

  Scene() {
    options.context_tokens = 1024;
    options.chunks = 2;
    options.decode_tokens = 128;
    options.trajectories = 0;
    report.chunks = 2;
    report.caches.resize(1);
    report.caches[0].cache = *ParseCacheChoice("f16");
    for (const char* name : {kBaseName, kFloorName}) {
      for (int c = 0; c < 2; ++c) Add(name, ChunkUnit(c), std::vector<float>(511, 0));
    }
    Add(kFloorName, DecodeUnit(1, 128, 1), std::vector<float>(128, 1e-5f));
  }
  void Add(const std::string& name, const std::string& unit, const std::vector<float>& kld, std::map<std::string, double> numbers = {}) {
    Series series(kld.size());
    series.kld = kld;
    Record record = ToRecord(series);
    record.numbers = std::move(numbers);
    ASSERT_TRUE(store.Add(name, unit, std::move(record)).ok());
  }
  // Values that vary a little, as measured ones do.
  static std::vector<float> Around(size_t count, double mean, double growth = 0) {
    std::vector<float> values(count);
    for (size_t i = 0; i < count; ++i) {
      values[i] = static_cast<float>(mean * (1 + 0.3 * std::sin(2.1 * static_cast<double>(i))) *
                                     (1 + growth * static_cast<double>(i) / static_cast<double>(count)));
    }
    return values;
  }
  void AddCache(const CacheChoice& cache, double prefill, double decode, std::map<std::string, double> numbers = {}, double growth = 0) {
    report.caches.emplace_back();
    report.caches.back().cache = cache;
    for (int c = 0; c < 2; ++c) Add(StoreName(cache), ChunkUnit(c), Around(511, prefill, growth), numbers);
    Add(StoreName(cache), DecodeUnit(1, 128, 1), Around(128, decode), numbers);
  }
  std::vector<std::string> WarningsOfLast() {
    Assemble(store, options, &report);
    return Warnings(report, options, report.caches.back());
  }
};

CacheChoice WithSpec(const std::string& spec) {
  CacheChoice cache;
  cache.name = cache.spec = spec;
  return cache;
}

TEST(Warnings, AHealthyCacheHasNone) {
  Scene scene;
  scene.AddCache(*ParseCacheChoice("turbo4"), 0.01, 0.011, {{"counter.set_rows", 100}, {"counter.flash_attention", 50}});
  EXPECT_TRUE(scene.WarningsOfLast().empty());
}

TEST(Warnings, MostOfWhatIsScoredIsExact) {
  // 128 and half a group of the 768 tokens before an average position; of 256 and half a group it is 42 %.
  const auto warnings = [](const char* spec) {
    Scene scene;
    scene.AddCache(WithSpec(spec), 0.01, 0.011, {{"counter.window_rows", 5}, {"counter.sinks_rows", 5}});
    return scene.WarningsOfLast();
  };
  EXPECT_TRUE(warnings("k=tcq3,v=tcq3,window=128").empty());
  const std::vector<std::string> found = warnings("k=tcq3,v=tcq3,window=256");
  ASSERT_EQ(found.size(), 1u);
  EXPECT_NE(found[0].find("42 %"), std::string::npos) << found[0];
}

TEST(Warnings, DecodeFarFromPrefill) {
  Scene scene;
  scene.AddCache(*ParseCacheChoice("q8_0"), 0.001, 0.004);
  const std::vector<std::string> warnings = scene.WarningsOfLast();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("decode kernels"), std::string::npos);
}

TEST(Warnings, DecodeApartByTheTwoKernelsOfLlamaIsNoFault) {
  Scene scene;
  scene.Add(kFloorName, DecodeUnit(1, 128, 1), std::vector<float>(128, 0.004f));
  scene.AddCache(*ParseCacheChoice("q8_0"), 0.001, 0.004);
  EXPECT_TRUE(scene.WarningsOfLast().empty());
}

// (d) A policy that never acts has the best figures of all.
TEST(Warnings, APolicyThatNeverActed) {
  Scene scene;
  scene.AddCache(WithSpec("k=turbo4,v=turbo4,sparse_v=0.001,window=128"), 0.01, 0.011,
                 {{"counter.set_rows", 100}, {"counter.v_rows", 9}, {"counter.sparse_v_rows", 0}, {"counter.window_rows", 7}, {"counter.window_cells", 5}});
  const std::vector<std::string> warnings = scene.WarningsOfLast();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("sparse_v=0.001 never acted"), std::string::npos) << warnings[0];
  const std::vector<PolicyUse> policies = PoliciesOf(scene.report.caches.back());
  ASSERT_EQ(policies.size(), 2u);
  EXPECT_EQ(policies[0].acted, 0);
  EXPECT_EQ(policies[1].acted, 3 * 7 + 5);  // two chunks and the decode path; cells are a state, not events
}

TEST(Warnings, AKernelThatNeverRan) {
  Scene scene;
  scene.AddCache(*ParseCacheChoice("turbo4"), 0, 0, {{"counter.set_rows", 100}, {"counter.flash_attention", 0}});
  const std::vector<std::string> warnings = scene.WarningsOfLast();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("did no flash_attention"), std::string::npos) << warnings[0];
}

TEST(PoliciesOf, WhatThePluginDoesNotCountIsNotZero) {
  CacheQuality cache;
  cache.cache = WithSpec("k=turbo4,v=turbo3,boundary=2:q8_0,transform=full,shrink=0.5,group_mean=off,sinks=0,window=128");
  cache.counters = {{"set_rows", 5}, {"rows_of_window", 5}};
  const std::vector<PolicyUse> policies = PoliciesOf(cache);
  ASSERT_EQ(policies.size(), 1u);  // the others are formats, or switched off
  EXPECT_EQ(policies[0].key, "window=128");
  EXPECT_FALSE(policies[0].acted.has_value());
}

TEST(Warnings, ALossThatGrowsWithDepth) {
  Scene scene;
  scene.AddCache(*ParseCacheChoice("q8_0"), 0.001, 0.004, {}, /*growth=*/3);
  const std::vector<std::string> warnings = scene.WarningsOfLast();
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("grows with depth"), std::string::npos) << warnings[0];
}

TEST(Judge, EachAgainstTheReferenceOnTheSameTokens) {
  Scene scene;
  scene.AddCache(*ParseCacheChoice("q8_0"), 0.001, 0.001);
  scene.AddCache(*ParseCacheChoice("q4_0"), 0.02, 0.02);
  scene.AddCache(*ParseCacheChoice("turbo4"), 0.021, 0.021);
  Assemble(scene.store, scene.options, &scene.report);
  const std::vector<CacheVerdict> verdicts = Judge(scene.report, 2);
  EXPECT_EQ(verdicts[0].prefill.verdict, Verdict::kNotMeasured);
  EXPECT_EQ(verdicts[1].prefill.verdict, Verdict::kBetter);
  EXPECT_EQ(verdicts[2].prefill.verdict, Verdict::kNotMeasured);
  EXPECT_EQ(verdicts[3].prefill.verdict, Verdict::kWorse);
  EXPECT_EQ(verdicts[3].decode.verdict, Verdict::kWorse);
  EXPECT_NEAR(verdicts[3].prefill.ratio, 1.05, 1e-3);
  for (const CacheVerdict& verdict : Judge(scene.report, 0)) EXPECT_EQ(verdict.prefill.verdict, Verdict::kNotMeasured);
}

}  // namespace
}  // namespace swivel
