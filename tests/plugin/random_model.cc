#include "random_model.h"

#include <cmath>
#include <cstring>
#include <random>
#include <type_traits>
#include <vector>

#include "gguf.h"

namespace swivel::plugin_test {
namespace {

// A seed that does not depend on the C++ library (FNV-1a).
uint32_t SeedOf(const char* name) {
  uint32_t hash = 2166136261u;
  for (; *name != '\0'; ++name) hash = (hash ^ static_cast<uint8_t>(*name)) * 16777619u;
  return hash;
}

// Weights that keep activations near unit variance and make attention peaked: a cache that is read wrongly then changes the logits.
void FillWeights(ggml_tensor* tensor, void* key_bias) {
  std::mt19937 random(SeedOf(tensor->name));
  std::normal_distribution<float> normal;
  const std::string name = tensor->name;
  const auto has = [&](const char* part) { return name.find(part) != std::string::npos; };
  const bool is_vector = ggml_n_dims(tensor) == 1;
  // Divisors of rotary frequencies, and what multiplies an activation channel by channel.
  const bool is_factor = has("rope_f") || has("norm.weight") || (is_vector && !has(".bias") && !has("ssm_") && !has("sinks"));
  const float gain = has("attn_q") || has("attn_k") || has("attn_qkv") ? 1.6f : 1.0f;
  std::vector<float> values(static_cast<size_t>(ggml_nelements(tensor)));
  for (float& value : values) {
    const float x = normal(random);
    value = is_factor ? 1.0f + 0.1f * std::abs(x) : is_vector ? 0.3f * x : gain * x / std::sqrt(static_cast<float>(tensor->ne[0]));
    if (has("token_embd")) value = x;
    if (has("ssm_a")) value = -std::abs(x);  // a state that decays
  }
  if (const float norm = *static_cast<const float*>(key_bias); norm > 0 && has("attn_k.bias")) {
    double sum = 0;
    for (const float value : values) sum += static_cast<double>(value) * value;
    for (float& value : values) value *= norm / static_cast<float>(std::sqrt(sum));
  }
  ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

struct GgufDeleter {
  void operator()(gguf_context* context) const { gguf_free(context); }
};

}  // namespace

ModelKeys::ModelKeys(std::string architecture, uint32_t width, uint32_t num_heads, uint32_t num_kv_heads)
    : architecture_(std::move(architecture)) {
  Set("vocab_size", uint32_t{kVocabulary});
  Set("context_length", 4096u);
  Set("embedding_length", 64u);
  Set("block_count", 2u);
  Set("feed_forward_length", 96u);
  Set("attention.head_count", num_heads);
  Set("attention.head_count_kv", num_kv_heads);
  Set("attention.key_length", width);
  Set("attention.value_length", width);
  Set("rope.dimension_count", width);
  Set("attention.layer_norm_rms_epsilon", 1e-5f);
  Set("attention.layer_norm_epsilon", 1e-5f);
}

ModelPtr ModelKeys::Load(ggml_backend_dev_t device, int gpu_layers) const {
  const std::unique_ptr<gguf_context, GgufDeleter> keys(gguf_init_empty());
  gguf_set_val_str(keys.get(), "general.architecture", architecture_.c_str());
  gguf_set_val_str(keys.get(), "tokenizer.ggml.model", "none");
  for (const auto& [name, value] : values_) {
    const std::string key = name.starts_with("tokenizer.") ? name : architecture_ + "." + name;
    std::visit(
        [&](const auto& v) {
          using T = std::decay_t<decltype(v)>;
          if constexpr (std::is_same_v<T, uint32_t>) gguf_set_val_u32(keys.get(), key.c_str(), v);
          if constexpr (std::is_same_v<T, float>) gguf_set_val_f32(keys.get(), key.c_str(), v);
          if constexpr (std::is_same_v<T, bool>) gguf_set_val_bool(keys.get(), key.c_str(), v);
          if constexpr (std::is_same_v<T, std::string>) gguf_set_val_str(keys.get(), key.c_str(), v.c_str());
          if constexpr (std::is_same_v<T, std::vector<uint32_t>>)
            gguf_set_arr_data(keys.get(), key.c_str(), GGUF_TYPE_UINT32, v.data(), v.size());
        },
        value);
  }
  ggml_backend_dev_t devices[2] = {device, nullptr};
  llama_model_params params = llama_model_default_params();
  params.devices = devices;
  params.n_gpu_layers = device == nullptr ? 0 : gpu_layers;
  float bias = key_bias_;
  return ModelPtr(llama_model_init_from_user(keys.get(), FillWeights, &bias, params));
}

}  // namespace swivel::plugin_test
