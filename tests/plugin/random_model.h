// Random models of any architecture that llama.cpp knows, made in memory from metadata alone: llama.cpp itself says which tensors such a
// model has. No file, the same graphs as with real weights.
#ifndef SWIVEL_TESTS_PLUGIN_RANDOM_MODEL_H_
#define SWIVEL_TESTS_PLUGIN_RANDOM_MODEL_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "ggml-backend.h"
#include "llama.h"

namespace swivel::plugin_test {

struct LlamaDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, LlamaDeleter>;
using ContextPtr = std::unique_ptr<llama_context, LlamaDeleter>;

inline constexpr int kVocabulary = 96;

// Keys of a GGUF file, those of the architecture without its name in front ("tokenizer.…" as they are). What is not set here or by a test
// is llama.cpp's default.
class ModelKeys {
 public:
  using Value = std::variant<uint32_t, float, bool, std::string, std::vector<uint32_t>>;

  // Two layers of `num_heads` queries over `num_kv_heads` keys and values of `width`.
  explicit ModelKeys(std::string architecture, uint32_t width = 32, uint32_t num_heads = 2, uint32_t num_kv_heads = 1);

  ModelKeys& Set(const std::string& key, Value value) {
    values_[key] = std::move(value);
    return *this;
  }
  ModelKeys& Unset(const std::string& key) {
    values_.erase(key);
    return *this;
  }
  // A bias of this length on the keys of every layer, as Qwen2 models have.
  ModelKeys& KeyBias(float norm) {
    key_bias_ = norm;
    return *this;
  }
  const std::string& architecture() const { return architecture_; }

  // On `device`, or on the CPU alone when it is null; the same keys give the same weights. Null when llama.cpp refuses.
  ModelPtr Load(ggml_backend_dev_t device, int gpu_layers = 99) const;

 private:
  std::string architecture_;
  std::map<std::string, Value> values_;
  float key_bias_ = 0;
};

}  // namespace swivel::plugin_test

#endif  // SWIVEL_TESTS_PLUGIN_RANDOM_MODEL_H_
