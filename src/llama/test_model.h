// Random models of a few kilobytes for tests of what runs models: no download, the same code as with real ones.
#ifndef SWIVEL_LLAMA_TEST_MODEL_H_
#define SWIVEL_LLAMA_TEST_MODEL_H_

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <random>
#include <string>
#include <vector>

#include "ggml.h"
#include "gguf.h"
#include "llama/model.h"

namespace swivel {

inline constexpr int kVocab = 320;

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

inline std::string WriteLlama(const std::string& name, ggml_type weights, uint32_t head_width = 32) {
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

inline std::vector<Token> RandomTokens(int count) {
  std::mt19937 random(5);
  std::vector<Token> tokens(static_cast<size_t>(count));
  for (Token& token : tokens) token = static_cast<Token>(random() % kVocab);
  return tokens;
}

}  // namespace swivel

#endif  // SWIVEL_LLAMA_TEST_MODEL_H_
