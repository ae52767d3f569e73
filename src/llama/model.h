// A model loaded through libllama: weights, vocabulary, and the same weights once more for contexts whose cache is Swivel's.
#ifndef SWIVEL_LLAMA_MODEL_H_
#define SWIVEL_LLAMA_MODEL_H_

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "llama/cache_choice.h"

struct llama_model;

namespace swivel {

using Token = int32_t;

class Model {
 public:
  enum class Devices {
    kCpu,     // stock: llama.cpp's CPU backend alone, whatever other devices the machine has
    kSwivel,  // the device of the plugin, which owns the cache; weights stay with the CPU backend
  };
  // Reads `path` (mapped, so that a second load shares its pages). Errors name the file: kNotFound, kIo (unreadable, truncated, not
  // GGUF), kUnsupported (no decoder, no attention).
  static StatusOr<std::unique_ptr<Model>> Load(const std::string& path, Devices devices);
  ~Model();
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;

  llama_model* get() const { return model_; }
  Devices devices() const { return devices_; }
  int vocab_size() const { return vocab_size_; }
  int train_context() const;
  int window() const;  // of sliding-window attention in tokens; 0 without
  bool adds_bos() const;
  Token bos() const;
  uint64_t num_bytes() const;
  std::string description() const;  // "llama 135M Q4_1"

  // `parse_special` turns "<|im_start|>" into its token instead of plain text.
  std::vector<Token> Tokenize(std::string_view text, bool add_special, bool parse_special) const;
  std::string Piece(Token token) const;
  bool EndsGeneration(Token token) const;
  // The prompt of a one-turn chat by the template in the model file; kUnsupported when it has none or llama.cpp does not know it.
  StatusOr<std::string> ChatPrompt(const std::string& user_text) const;

 private:
  Model() = default;

  llama_model* model_ = nullptr;
  Devices devices_ = Devices::kCpu;
  int vocab_size_ = 0;
};

// The model at `path` for every kind of cache, each loaded when first needed.
class ModelPair {
 public:
  explicit ModelPair(std::string path) : path_(std::move(path)) {}
  StatusOr<Model*> For(const CacheChoice& cache) { return Get(cache.stock ? Model::Devices::kCpu : Model::Devices::kSwivel); }
  StatusOr<Model*> Get(Model::Devices devices);
  const std::string& path() const { return path_; }

 private:
  std::string path_;
  std::unique_ptr<Model> models_[2];
};

// Starts llama.cpp's backends, once; Model::Load does it too. For those who use ggml without a model.
void InitLlama();

// "0.0.11434 (ggml 0.26.0)".
std::string LlamaBuild();

}  // namespace swivel

#endif  // SWIVEL_LLAMA_MODEL_H_
