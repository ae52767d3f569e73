// Evaluates random models of a few kilobytes: no download, the same code as with real ones.
#include "eval/quality.h"

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "eval/lock_step.h"
#include "ggml.h"
#include "gguf.h"
#include "llama/f32_weights.h"
#include "llama/log.h"

namespace swivel {
namespace {

constexpr int kVocab = 320;

// Collects keys and random F32 (or Q8_0) tensors of a GGUF file.
class TinyModel {
 public:
  explicit TinyModel(const char* architecture) : gguf_(gguf_init_empty()) {
    ggml_ = ggml_init({size_t{64} << 20, nullptr, false});
    prefix_ = architecture;
    gguf_set_val_str(gguf_, "general.architecture", architecture);
    gguf_set_val_str(gguf_, "tokenizer.ggml.model", "none");
    Number("vocab_size", kVocab);
    Number("context_length", 1024);
    Number("embedding_length", 64);
    Number("block_count", 2);
    Number("feed_forward_length", 96);
    gguf_set_val_f32(gguf_, (prefix_ + ".attention.layer_norm_rms_epsilon").c_str(), 1e-5f);
    Tensor("token_embd.weight", {64, kVocab});
    Tensor("output_norm.weight", {64});
    Tensor("output.weight", {64, kVocab});
  }
  ~TinyModel() {
    gguf_free(gguf_);
    ggml_free(ggml_);
  }

  void Number(const char* key, uint32_t value) { gguf_set_val_u32(gguf_, (prefix_ + "." + key).c_str(), value); }
  void Tensor(const std::string& name, const std::vector<int64_t>& shape, ggml_type type = GGML_TYPE_F32) {
    ggml_tensor* tensor = ggml_new_tensor(ggml_, type, static_cast<int>(shape.size()), shape.data());
    ggml_set_name(tensor, name.c_str());
    std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
    // Wide enough that attention is peaked and the next token is not a coin toss.
    std::normal_distribution<float> normal(shape.size() == 1 ? 1.0f : 0.0f, shape.size() == 1 ? 0.1f : 0.35f);
    for (float& value : values) value = normal(random_);
    ggml_quantize_chunk(type, values.data(), tensor->data, 0, ggml_nelements(tensor) / tensor->ne[0], tensor->ne[0], nullptr);
    gguf_add_tensor(gguf_, tensor);
  }
  std::string Write(const std::string& name) {
    const std::string path = (std::filesystem::path(testing::TempDir()) / (name + std::to_string(getpid()) + ".gguf")).string();
    EXPECT_TRUE(gguf_write_to_file(gguf_, path.c_str(), false));
    return path;
  }

 private:
  gguf_context* gguf_;
  ggml_context* ggml_;
  std::string prefix_;
  std::mt19937 random_{11};
};

std::string WriteLlama(const std::string& name, ggml_type weights, uint32_t head_width = 32) {
  TinyModel model("llama");
  model.Number("attention.head_count", 2);
  model.Number("attention.head_count_kv", 1);
  model.Number("attention.key_length", head_width);
  model.Number("attention.value_length", head_width);
  model.Number("rope.dimension_count", head_width);
  const int64_t width = head_width;
  for (const char* block : {"blk.0.", "blk.1."}) {
    const std::string prefix = block;
    model.Tensor(prefix + "attn_norm.weight", {64});
    model.Tensor(prefix + "attn_q.weight", {64, 2 * width}, weights);
    model.Tensor(prefix + "attn_k.weight", {64, width}, weights);
    model.Tensor(prefix + "attn_v.weight", {64, width}, weights);
    model.Tensor(prefix + "attn_output.weight", {2 * width, 64}, width % 16 == 0 ? weights : GGML_TYPE_F32);
    model.Tensor(prefix + "ffn_norm.weight", {64});
    model.Tensor(prefix + "ffn_gate.weight", {64, 96}, weights);
    model.Tensor(prefix + "ffn_up.weight", {64, 96}, weights);
    model.Tensor(prefix + "ffn_down.weight", {96, 64}, weights);
  }
  return model.Write(name);
}

std::vector<Token> RandomTokens(int count) {
  std::mt19937 random(5);
  std::vector<Token> tokens(static_cast<size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(random() % kVocab);
  return tokens;
}

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
  return options;
}

class Quality : public testing::Test {
 protected:
  void SetUp() override { CaptureLlamaLog(false); }
  void TearDown() override {
    if (!path_.empty()) std::filesystem::remove(path_);
  }
  std::string path_;
};

TEST_F(Quality, OrdersCachesAndCountsThem) {
  path_ = WriteLlama("swivel_quality", GGML_TYPE_F32);
  ModelPair models(path_);
  Progress progress;
  const std::vector<Token> tokens = RandomTokens(2 * 256);
  StatusOr<QualityReport> report = EvaluateQuality(models, tokens, Stock({"q8_0", "q4_0", "stock:f16"}), SmallOptions(), &progress);
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

  // The same computation twice is bit for bit the same.
  EXPECT_EQ(*same.prefill.kld.max, 0);
  EXPECT_EQ(same.prefill.same_top1->mean, 1);
  EXPECT_EQ(same.perplexity->mean, base.perplexity->mean);
  EXPECT_NEAR(q4_0.log_ppl_ratio->mean, std::log(q4_0.perplexity->mean / base.perplexity->mean), 1e-9);
  EXPECT_FALSE(base.log_ppl_ratio.has_value());
}

TEST_F(Quality, GroupsDoNotChangeFigures) {
  path_ = WriteLlama("swivel_groups", GGML_TYPE_F32);
  ModelPair models(path_);
  Progress progress;
  QualityOptions options = SmallOptions();
  const std::vector<Token> tokens = RandomTokens(2 * 256);
  const std::vector<Candidate> candidates = Stock({"q8_0", "q4_0", "stock:q5_0"});
  StatusOr<QualityReport> together = EvaluateQuality(models, tokens, candidates, options, &progress);
  ASSERT_TRUE(together.ok()) << together.status().message();
  EXPECT_EQ(together->num_groups, 1);
  for (int max_contexts : {2, 3, 4}) {
    options.max_contexts = max_contexts;
    StatusOr<QualityReport> apart = EvaluateQuality(models, tokens, candidates, options, &progress);
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
  Progress progress;
  QualityOptions options = SmallOptions();
  options.chunks = 1;
  double means[2];
  for (int threads : {1, 2}) {
    options.threads = threads;
    StatusOr<QualityReport> report = EvaluateQuality(models, RandomTokens(256), Stock({"q4_0"}), options, &progress);
    ASSERT_TRUE(report.ok()) << report.status().message();
    means[threads - 1] = *report->caches[1].prefill.kld.mean;
  }
  EXPECT_NEAR(means[0], means[1], 1e-3 * means[0]);
}

// q4_0 has blocks of 32 values; a row that is only shown says so, one that was asked for ends the evaluation.
TEST_F(Quality, ARefusedCacheIsARowOrAnError) {
  path_ = WriteLlama("swivel_refused", GGML_TYPE_F32, /*head_width=*/16);
  ModelPair models(path_);
  Progress progress;
  QualityOptions options = SmallOptions();
  options.chunks = 1;
  StatusOr<QualityReport> shown = EvaluateQuality(models, RandomTokens(256), Stock({"q4_0"}, false), options, &progress);
  ASSERT_TRUE(shown.ok()) << shown.status().message();
  EXPECT_NE(shown->caches[1].refusal.find("block size"), std::string::npos) << shown->caches[1].refusal;
  EXPECT_FALSE(shown->caches[1].prefill.kld.mean.has_value());
  StatusOr<QualityReport> asked = EvaluateQuality(models, RandomTokens(256), Stock({"q4_0"}), options, &progress);
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
  StatusOr<std::string> expanded = ExpandToF32(path_, 1);
  ASSERT_TRUE(expanded.ok()) << expanded.status().message();
  EXPECT_NE(*expanded, path_);
  const auto written = std::filesystem::last_write_time(*expanded);
  EXPECT_EQ(*ExpandToF32(path_, 1), *expanded);
  EXPECT_EQ(std::filesystem::last_write_time(*expanded), written);
  EXPECT_EQ(*ExpandToF32(*expanded, 1), *expanded);  // nothing left to expand
  EXPECT_TRUE(Model::Load(*expanded, Model::Devices::kCpu).ok());
  size_t num_files = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::recursive_directory_iterator(cache)) ++num_files;
  EXPECT_EQ(num_files, 2u);  // the folder f32 and the model
  std::filesystem::remove_all(cache);
  unsetenv("SWIVEL_CACHE");
}

TEST(LogitBatch, StaysWithin128MiB) {
  EXPECT_EQ(LogitBatch(32000), 512);
  EXPECT_EQ(LogitBatch(151936), 128);
  for (int vocab : {1, 49152, 262144, 1000000}) {
    const int batch = LogitBatch(vocab);
    EXPECT_TRUE(batch == 16 || int64_t{batch} * vocab * 4 <= (int64_t{128} << 20)) << vocab;
  }
}

}  // namespace
}  // namespace swivel
