// The keys, values and queries of a model on a text, as its attention gets them.
//
// Taken from the graph while llama.cpp runs it with its own f16 cache and flash attention: keys and values are the float rows that are
// about to be written into the cache (after the rotary embedding, before rounding to f16), queries the operand of attention. Nothing is
// computed differently for being looked at.
#ifndef SWIVEL_LLAMA_CAPTURE_H_
#define SWIVEL_LLAMA_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "llama/model.h"

namespace swivel {

struct CaptureOptions {
  std::vector<int> layers;  // empty: all that have a cache
  std::vector<int> heads;   // KV heads, and the query heads that read them; empty: all
  bool queries = false;
  bool values = true;
  int threads = 1;
  int64_t most_bytes = int64_t{1} << 40;  // of what is kept
};

// One of K, V or Q of a layer.
struct CapturedRows {
  char kind = 'k';  // 'k', 'v' or 'q'
  int layer = 0;
  int num_heads = 0;        // of the model, kept or not
  int width = 0;            // of a head
  std::vector<int> heads;   // those that were kept
  std::vector<float> rows;  // [kept head][token][width]
  float logit_scale = 0;    // of a layer's attention: logits are logit_scale * <q, k>

  std::span<const float> head(size_t i, size_t tokens) const {
    const size_t values = tokens * static_cast<size_t>(width);
    return {&rows[i * values], values};
  }
};

// Runs `tokens` at positions 0, 1, … and returns what was chosen, by layer, then k, v, q. Models with latent attention have keys only:
// their values are a part of these. Layers that read another layer's cache have nothing of their own. `progress` is told how many tokens
// are done. `model` must be of Model::Devices::kCpu. Errors: kInvalidArgument for a layer or a head that the model does not have (the
// message says which there are), kOutOfMemory beyond most_bytes, kUnsupported for a model without a cache.
StatusOr<std::vector<CapturedRows>> CaptureAttention(const Model& model, std::span<const Token> tokens, const CaptureOptions& options,
                                                     const std::function<void(size_t)>& progress);

}  // namespace swivel

#endif  // SWIVEL_LLAMA_CAPTURE_H_
