// One inference context with a named cache: decode tokens, read logits.
#ifndef SWIVEL_LLAMA_CONTEXT_H_
#define SWIVEL_LLAMA_CONTEXT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>

#include "base/status.h"
#include "llama/cache_choice.h"
#include "llama/layout.h"
#include "llama/model.h"

struct ggml_tensor;
struct llama_context;

namespace swivel {

// Called with every node of a graph before (`ask`: is its value wanted?) and after it is computed; false from the second ends the graph.
struct NodeHook {
  bool (*callback)(ggml_tensor* node, bool ask, void* data) = nullptr;
  void* data = nullptr;
};

struct ContextOptions {
  int context_tokens = 2048;
  int batch_tokens = 512;  // largest Decode()
  int micro_batch_tokens = 512;
  int max_outputs = 1;  // most rows of logits that one Decode() may ask for
  int threads = 1;
  NodeHook hook = {};  // tests of the evaluation put faults into a model here
};

// What a cache costs at full capacity; absent when it is not known.
struct CacheUse {
  std::optional<double> bits_per_value;
  std::optional<int64_t> cache_bytes;     // all rows packed
  std::optional<int64_t> full_bytes;      // of a full cache with the rows that it keeps exact, which is what a user pays
  std::optional<int64_t> f16_bytes;       // of llama.cpp's f16 cache with as many cells
  std::optional<int64_t> resident_bytes;  // touched when asked; Swivel caches only
};

// full_bytes of a cache whose cache_bytes is known: the window and the group that is being filled are f16 rows, the others packed. One sequence.
std::optional<int64_t> FullBytes(const CacheChoice& cache, const CacheUse& use, const CacheLayout& layout);

class Context {
 public:
  // `model` must be of the devices that `cache` needs (ModelPair::For) and outlive the context. Flash attention is on. kUnsupported
  // when llama.cpp or the plugin refuses the cache for this model; kOutOfMemory when it does not fit.
  static StatusOr<std::unique_ptr<Context>> Create(const Model& model, const CacheChoice& cache, const ContextOptions& options);
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  // Forgets all tokens.
  void Clear();
  // Forgets the tokens from `position` on. False where the model's memory cannot (recurrent layers): then nothing is known to be left.
  bool Truncate(int position);
  // Appends tokens at positions first_position, first_position + 1, …; the last `num_outputs` of them get logits.
  Status Decode(std::span<const Token> tokens, int first_position, int num_outputs);
  // Row `row` (0 … num_outputs-1) of the last Decode(): vocab_size() floats, valid until the next Decode() or Clear().
  const float* Logits(int row) const;

  // `layout` of the model at this context's size (ProbeLayout). With an empty one a Swivel cache is counted against the f16 size that
  // the plugin states, and of a stock cache nothing is known.
  CacheUse Use(const CacheLayout& layout) const;
  // What the plugin has counted for this cache so far (set_rows, flash_attention, …); empty for stock caches.
  std::map<std::string, int64_t> Counters() const;
  // Tokens it holds: what was asked for, rounded up by llama.cpp to a multiple of 256.
  int capacity_tokens() const;
  const CacheChoice& cache() const { return cache_; }
  const Model& model() const { return *model_; }
  llama_context* get() const { return context_; }

 private:
  Context() = default;

  const Model* model_ = nullptr;
  CacheChoice cache_;
  llama_context* context_ = nullptr;
  std::set<int64_t> plugin_contexts_;  // numbers of its caches in Plugin::Report()
};

}  // namespace swivel

#endif  // SWIVEL_LLAMA_CONTEXT_H_
