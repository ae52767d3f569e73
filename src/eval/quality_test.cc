// Evaluates random models of a few kilobytes: no download, the same code as with real ones.
#include "eval/quality.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "eval/lock_step.h"
#include "eval/output_file.h"
#include "llama/wide_weights.h"
#include "llama/log.h"
#include "llama/test_model.h"

namespace swivel {
namespace {

std::vector<Candidate> Stock(std::initializer_list<const char*> names, bool must_run = true) {
  std::vector<Candidate> candidates;
  for (const char* name : names) candidates.push_back({*ParseCacheChoice(name), must_run});
  return candidates;
}

QualityOptions SmallOptions() {
  QualityOptions options;
  options.context_tokens = 256;
  options.chunks = 2;
  options.decode_tokens = 32;
  options.trajectories = 2;
  options.trajectory_tokens = 16;
  return options;
}

class Quality : public testing::Test {
 protected:
  static StatusOr<QualityReport> Run(ModelPair& models, const std::vector<Token>& tokens, const std::vector<Candidate>& candidates,
                                     const QualityOptions& options, Store* store = nullptr) {
    Progress progress;
    Store memory;
    return EvaluateQuality(models, tokens, candidates, options, store != nullptr ? store : &memory, &progress);
  }

  void SetUp() override { CaptureLlamaLog(false); }
  void TearDown() override {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  std::string path_;
};

TEST_F(Quality, OrdersCachesAndCountsThem) {
  path_ = WriteLlama("swivel_quality", GGML_TYPE_F32);
  ModelPair models(path_);
  const std::vector<Token> tokens = RandomTokens(2 * 256);
  StatusOr<QualityReport> report = Run(models, tokens, Stock({"q8_0", "q4_0", "stock:f16"}), SmallOptions());
  ASSERT_TRUE(report.ok()) << report.status().message();
  ASSERT_EQ(report->caches.size(), 4u);
  const CacheQuality& base = report->caches[0];
  const CacheQuality& q8_0 = report->caches[1];
  const CacheQuality& q4_0 = report->caches[2];
  const CacheQuality& same = report->caches[3];

  // Two layers of K and V, 32 values a cell, 256 cells.
  EXPECT_EQ(base.use.cache_bytes, 2 * 2 * 32 * 256 * 2);
  EXPECT_DOUBLE_EQ(*q8_0.use.bits_per_value, 8.5);
  EXPECT_DOUBLE_EQ(*q4_0.use.bits_per_value, 4.5);

  EXPECT_EQ(q4_0.prefill.kld.positions, 2u * 127);
  EXPECT_EQ(q4_0.decode.kld.positions, 32u);
  EXPECT_GT(*q8_0.prefill.kld.mean, 0);
  EXPECT_GT(*q4_0.prefill.kld.mean, 10 * *q8_0.prefill.kld.mean);
  EXPECT_GT(*q4_0.decode.kld.mean, 10 * *q8_0.decode.kld.mean);
  EXPECT_LT(*report->floor.kld.mean, *q8_0.prefill.kld.mean);
  EXPECT_GT(q8_0.prefill.same_top1->mean, q4_0.prefill.same_top1->mean);

  EXPECT_EQ(q4_0.decode4.kld.positions, 32u);
  EXPECT_GT(*q4_0.decode4.kld.mean, 10 * *q8_0.decode4.kld.mean);
  EXPECT_GT(q8_0.prefill.top5_overlap->mean, q4_0.prefill.top5_overlap->mean);
  EXPECT_EQ(q4_0.prefill.by_position.size(), 8u);
  EXPECT_EQ(q4_0.prefill.by_position.front().begin, 128);
  EXPECT_EQ(q4_0.prefill.by_position.back().end, 255);
  ASSERT_TRUE(q4_0.trajectories.has_value());
  EXPECT_EQ(same.trajectories->never, 2);
  EXPECT_LE(q4_0.trajectories->median_until, q8_0.trajectories->median_until);
  // The worst token is where its series says.
  const size_t worst = static_cast<size_t>(q4_0.worst->chunk * 127 + q4_0.worst->position - 128);
  EXPECT_FLOAT_EQ(q4_0.prefill.series.kld[worst], static_cast<float>(*q4_0.prefill.kld.max));

  // The same computation twice is bit for bit the same.
  EXPECT_EQ(*same.prefill.kld.max, 0);
  EXPECT_EQ(same.prefill.same_top1->mean, 1);
  EXPECT_EQ(same.perplexity->mean, base.perplexity->mean);
  EXPECT_NEAR(q4_0.log_ppl_ratio->mean, std::log(q4_0.perplexity->mean / base.perplexity->mean), 1e-9);
  EXPECT_FALSE(base.log_ppl_ratio.has_value());
}

// What the store holds is not measured again, and what is missing is: a file cut in the middle of a line, as a killed process leaves it,
// ends in the same figures.
TEST_F(Quality, GoesOnWhereItWasKilled) {
  path_ = WriteLlama("swivel_resume", GGML_TYPE_F32);
  ModelPair models(path_);
  const std::vector<Token> tokens = RandomTokens(2 * 256);
  const std::vector<Candidate> candidates = Stock({"q8_0", "q4_0"});
  const std::string file = path_ + ".state";
  const Conditions conditions = {{"-c", "256"}};
  std::string content;
  std::vector<double> whole;
  auto figures = [](const QualityReport& report) {
    std::vector<double> all = {*report.floor.kld.mean, *report.floor_decode.kld.mean, report.caches[0].perplexity->mean};
    for (size_t i = 1; i < 3; ++i) {
      const CacheQuality& cache = report.caches[i];
      for (double figure : {*cache.prefill.kld.mean, *cache.prefill.kld.max, *cache.decode.kld.mean, *cache.decode4.kld.mean,
                            cache.log_ppl_ratio->mean, cache.trajectories->median_until, *cache.use.bits_per_value}) {
        all.push_back(figure);
      }
    }
    return all;
  };
  {
    StatusOr<std::unique_ptr<Store>> store = Store::Open(file, conditions);
    ASSERT_TRUE(store.ok()) << store.status().message();
    StatusOr<QualityReport> report = Run(models, tokens, candidates, SmallOptions(), store->get());
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->num_groups, 1);
    whole = figures(*report);
    content = *ReadFile(file);
  }
  {
    StatusOr<std::unique_ptr<Store>> store = Store::Open(file, conditions);
    StatusOr<QualityReport> report = Run(models, tokens, candidates, SmallOptions(), store->get());
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->num_groups, 0);  // nothing was left to do
    EXPECT_EQ(figures(*report), whole);
  }
  for (double share : {0.1, 0.5, 0.9}) {
    ASSERT_TRUE(WriteFile(file, content.substr(0, static_cast<size_t>(share * static_cast<double>(content.size())))).ok());
    StatusOr<std::unique_ptr<Store>> store = Store::Open(file, conditions);
    ASSERT_TRUE(store.ok()) << store.status().message();
    StatusOr<QualityReport> report = Run(models, tokens, candidates, SmallOptions(), store->get());
    ASSERT_TRUE(report.ok()) << report.status().message();
    EXPECT_EQ(report->num_groups, 1) << share;
    EXPECT_EQ(figures(*report), whole) << share;
  }
  std::filesystem::remove(file);
}

TEST_F(Quality, AStrideScoresEveryTokenOnce) {
  path_ = WriteLlama("swivel_stride", GGML_TYPE_F32);
  ModelPair models(path_);
  QualityOptions options = SmallOptions();
  options.stride = 128;
  options.chunks = 3;
  options.decode_tokens = options.trajectories = 0;
  StatusOr<QualityReport> report = Run(models, RandomTokens(512), Stock({"q4_0"}), options);
  ASSERT_TRUE(report.ok()) << report.status().message();
  EXPECT_EQ(report->caches[1].prefill.kld.positions, 3u * 127);
  EXPECT_FALSE(report->caches[1].decode.kld.mean.has_value());
  EXPECT_FALSE(report->caches[1].trajectories.has_value());
  options.stride = 0;
  options.chunks = 1;
  options.score_from = 16;
  StatusOr<QualityReport> early = Run(models, RandomTokens(512), Stock({"q4_0"}), options);
  ASSERT_TRUE(early.ok()) << early.status().message();
  EXPECT_EQ(early->caches[1].prefill.kld.positions, 256u - 1 - 16);
  EXPECT_NE(early->token_hash, report->token_hash);
}

TEST_F(Quality, GroupsDoNotChangeFigures) {
  path_ = WriteLlama("swivel_groups", GGML_TYPE_F32);
  ModelPair models(path_);
  QualityOptions options = SmallOptions();
  const std::vector<Token> tokens = RandomTokens(2 * 256);
  const std::vector<Candidate> candidates = Stock({"q8_0", "q4_0", "stock:q5_0"});
  StatusOr<QualityReport> together = Run(models, tokens, candidates, options);
  ASSERT_TRUE(together.ok()) << together.status().message();
  EXPECT_EQ(together->num_groups, 1);
  for (int max_contexts : {2, 3, 4}) {
    options.max_contexts = max_contexts;
    StatusOr<QualityReport> apart = Run(models, tokens, candidates, options);
    ASSERT_TRUE(apart.ok()) << apart.status().message();
    EXPECT_GT(apart->num_groups, 1);
    EXPECT_LT(apart->memory_bound_bytes, together->memory_bound_bytes);
    for (size_t i = 1; i < 4; ++i) {
      EXPECT_EQ(*apart->caches[i].prefill.kld.mean, *together->caches[i].prefill.kld.mean) << max_contexts << " " << i;
      EXPECT_EQ(*apart->caches[i].decode.kld.mean, *together->caches[i].decode.kld.mean) << max_contexts << " " << i;
      EXPECT_EQ(apart->caches[i].log_ppl_ratio->mean, together->caches[i].log_ppl_ratio->mean) << max_contexts << " " << i;
    }
  }
}

TEST_F(Quality, ThreadsDoNotChangeFigures) {
  path_ = WriteLlama("swivel_threads", GGML_TYPE_F32);
  ModelPair models(path_);
  QualityOptions options = SmallOptions();
  options.chunks = 1;
  double means[2];
  for (int threads : {1, 2}) {
    options.threads = threads;
    StatusOr<QualityReport> report = Run(models, RandomTokens(256), Stock({"q4_0"}), options);
    ASSERT_TRUE(report.ok()) << report.status().message();
    means[threads - 1] = *report->caches[1].prefill.kld.mean;
  }
  EXPECT_NEAR(means[0], means[1], 1e-3 * means[0]);
}

// q4_0 has blocks of 32 values; a row that is only shown says so, one that was asked for ends the evaluation.
TEST_F(Quality, ARefusedCacheIsARowOrAnError) {
  path_ = WriteLlama("swivel_refused", GGML_TYPE_F32, /*head_width=*/16);
  ModelPair models(path_);
  QualityOptions options = SmallOptions();
  options.chunks = 1;
  StatusOr<QualityReport> shown = Run(models, RandomTokens(256), Stock({"q4_0"}, false), options);
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  EXPECT_NE(shown->caches[1].refusal.find("block size"), std::string::npos) << shown->caches[1].refusal;
  EXPECT_FALSE(shown->caches[1].prefill.kld.mean.has_value());
  StatusOr<QualityReport> asked = Run(models, RandomTokens(256), Stock({"q4_0"}), options);
  ASSERT_FALSE(asked.ok());
  EXPECT_EQ(asked.status().code(), StatusCode::kUnsupported);
}

TEST_F(Quality, ARecurrentModelIsRefused) {
  TinyModel model("mamba");
  model.Number("ssm.conv_kernel", 4);
  model.Number("ssm.inner_size", 128);
  model.Number("ssm.state_size", 16);
  model.Number("ssm.time_step_rank", 4);
  for (const char* block : {"blk.0.", "blk.1."}) {
    const std::string prefix = block;
    model.Tensor(prefix + "attn_norm.weight", {64});
    model.Tensor(prefix + "ssm_in.weight", {64, 256});
    model.Tensor(prefix + "ssm_conv1d.weight", {4, 128});
    model.Tensor(prefix + "ssm_conv1d.bias", {128});
    model.Tensor(prefix + "ssm_x.weight", {128, 36});
    model.Tensor(prefix + "ssm_dt.weight", {4, 128});
    model.Tensor(prefix + "ssm_dt.bias", {128});
    model.Tensor(prefix + "ssm_a", {16, 128});
    model.Tensor(prefix + "ssm_d", {128});
    model.Tensor(prefix + "ssm_out.weight", {128, 64});
  }
  path_ = model.Write("swivel_mamba");
  StatusOr<std::unique_ptr<Model>> loaded = Model::Load(path_, Model::Devices::kCpu);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kUnsupported);
  EXPECT_NE(loaded.status().message().find("recurrent"), std::string::npos) << loaded.status().message();
}

TEST_F(Quality, ATruncatedModelIsAnError) {
  path_ = WriteLlama("swivel_truncated", GGML_TYPE_F32);
  std::filesystem::resize_file(path_, std::filesystem::file_size(path_) / 2);
  StatusOr<std::unique_ptr<Model>> loaded = Model::Load(path_, Model::Devices::kCpu);
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), StatusCode::kIo);
  EXPECT_NE(loaded.status().message().find("file bounds"), std::string::npos) << loaded.status().message();
}

TEST_F(Quality, ExpandsWeightsOnce) {
  path_ = WriteLlama("swivel_expand", GGML_TYPE_Q8_0);
  const std::filesystem::path cache = path_ + ".cache";
  setenv("SWIVEL_CACHE", cache.c_str(), 1);
  StatusOr<std::string> expanded = WidenWeights(path_, "f32", 1);
  ASSERT_TRUE(expanded.ok()) << expanded.status().message();
  EXPECT_NE(*expanded, path_);
  const auto written = std::filesystem::last_write_time(*expanded);
  EXPECT_EQ(*WidenWeights(path_, "f32", 1), *expanded);
  EXPECT_EQ(std::filesystem::last_write_time(*expanded), written);
  EXPECT_EQ(*WidenWeights(*expanded, "f32", 1), *expanded);  // nothing left to expand
  EXPECT_TRUE(Model::Load(*expanded, Model::Devices::kCpu).ok());
  EXPECT_EQ(*WidenWeights(*expanded, "f16", 1), *expanded);
  EXPECT_EQ(*WidenWeights(path_, "as-is", 1), path_);
  StatusOr<std::string> half = WidenWeights(path_, "f16", 1);
  ASSERT_TRUE(half.ok()) << half.status().message();
  EXPECT_LT(std::filesystem::file_size(*half), std::filesystem::file_size(*expanded) * 6 / 10);
  EXPECT_TRUE(Model::Load(*half, Model::Devices::kCpu).ok());
  EXPECT_EQ(*WidenWeights(*half, "f16", 1), *half);
  EXPECT_NE(*WidenWeights(*half, "f32", 1), *half);  // F16 weights round activations, too
  size_t num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::recursive_directory_iterator(cache)) ++num_files;
  EXPECT_EQ(num_files, 5u);  // the folders f16 and f32, and three models
  std::filesystem::remove_all(cache);
  unsetenv("SWIVEL_CACHE");
}

TEST(LogitBatch, StaysWithin128MiB) {
  EXPECT_EQ(LogitBatch(32000), 512);
  EXPECT_EQ(LogitBatch(151936), 128);
  EXPECT_EQ(LogitBatch(32000, 128), 128);
  EXPECT_EQ(LogitBatch(32000, 100), 64);
  for (int vocab : {1, 49152, 262144, 1000000}) {
    const int batch = LogitBatch(vocab);
    EXPECT_TRUE(batch == 16 || int64_t{batch} * vocab * 4 <= (int64_t{128} << 20)) << vocab;
  }
}

}  // namespace
}  // namespace swivel
