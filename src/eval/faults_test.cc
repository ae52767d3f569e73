// Builds that are broken on purpose: does an evaluation see it? A hook changes rows on their way into llama.cpp's own q8_0 cache, so that
// the whole path is exercised (contexts, logits, statistics) and nothing of it is in the product.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "eval/checks.h"
#include "eval/quality.h"
#include "ggml.h"
#include "llama/log.h"
#include "llama/test_model.h"

namespace swivel {
namespace {

enum class Fault { kNone, kZeroValuesInDecode, kScaledKeysAndValues, kShuffledKeysOfOneLayer };

// Asks for every node, so that a row is finished when the node that writes it is announced.
bool Inject(ggml_tensor* node, bool ask, void* data) {
  const Fault fault = *static_cast<const Fault*>(data);
  if (!ask || node->op != GGML_OP_SET_ROWS) return true;
  ggml_tensor* rows = node->src[0];
  const std::string cache = node->view_src != nullptr ? node->view_src->name : node->name;
  const bool is_key = cache.find("cache_k") != std::string::npos;
  const bool of_layer_1 = cache.ends_with("_l1");
  for (int64_t r = 0; r < rows->ne[1]; ++r) {
    float* row = reinterpret_cast<float*>(static_cast<char*>(rows->data) + r * static_cast<int64_t>(rows->nb[1]));
    float* end = row + rows->ne[0];
    if (fault == Fault::kZeroValuesInDecode && !is_key && rows->ne[1] == 1) std::fill(row, end, 0.0f);
    if (fault == Fault::kScaledKeysAndValues) std::for_each(row, end, [](float& value) { value *= 1.02f; });
    if (fault == Fault::kShuffledKeysOfOneLayer && is_key && of_layer_1) std::reverse(row, end);
  }
  return true;
}

class Faults : public testing::Test {
 protected:
  void SetUp() override {
    CaptureLlamaLog(false);
    path_ = WriteLlama("swivel_faults", GGML_TYPE_F32);
    options_.context_tokens = 256;
    options_.chunks = 12;
    options_.decode_tokens = 64;
    options_.trajectories = 2;
    options_.trajectory_tokens = 8;
  }
  void TearDown() override { std::filesystem::remove(path_); }

  QualityReport Evaluate(Fault fault) {
    ModelPair models(path_);
    Store store;
    Progress progress;
    const std::vector<Candidate> candidates = {{*ParseCacheChoice("q8_0"), true, {&Inject, &fault}}};
    StatusOr<QualityReport> report = EvaluateQuality(models, RandomTokens(12 * 256), candidates, options_, &store, &progress);
    EXPECT_TRUE(report.ok()) << report.status().message();
    return report.ok() ? *report : QualityReport();
  }
  static PairedDifference Against(const QualityReport& broken, const QualityReport& healthy) {
    const Series& series = healthy.caches[1].prefill.series;
    return ComparePaired(broken.caches[1].prefill.series.kld, series.kld, series.runs);
  }

  std::string path_;
  QualityOptions options_;
};

TEST_F(Faults, EachIsSeen) {
  const QualityReport healthy = Evaluate(Fault::kNone);
  EXPECT_TRUE(Warnings(healthy, options_, healthy.caches[1]).empty());

  // (a) Perplexity and every other figure of the prefill path cannot see this one.
  const QualityReport decode = Evaluate(Fault::kZeroValuesInDecode);
  EXPECT_EQ(Against(decode, healthy).difference, 0);
  EXPECT_GT(*decode.caches[1].decode.kld.mean, 10 * *healthy.caches[1].decode.kld.mean);
  const std::vector<std::string> warnings = Warnings(decode, options_, decode.caches[1]);
  ASSERT_EQ(warnings.size(), 1u);
  EXPECT_NE(warnings[0].find("suspect its decode kernels"), std::string::npos) << warnings[0];

  // (b), (c) Nothing about the cache alone is strange; beside an evaluation of a healthy build it is.
  const QualityReport scaled = Evaluate(Fault::kScaledKeysAndValues);
  EXPECT_EQ(Against(scaled, healthy).verdict, Verdict::kWorse);
  EXPECT_GT(Against(scaled, healthy).ratio, 1.05);
  const QualityReport shuffled = Evaluate(Fault::kShuffledKeysOfOneLayer);
  EXPECT_EQ(Against(shuffled, healthy).verdict, Verdict::kWorse);
  EXPECT_GT(Against(shuffled, healthy).ratio, 50);
}

}  // namespace
}  // namespace swivel
