// How many values a model caches, counted from the tensors that llama.cpp allocates.
//
// Formulas over head counts go wrong for sliding windows, shared layers, MLA and hybrids; the tensors do not.
#ifndef SWIVEL_LLAMA_LAYOUT_H_
#define SWIVEL_LLAMA_LAYOUT_H_

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "llama/model.h"

namespace swivel {

struct CacheLayout {
  struct Tensor {
    int64_t row_values;  // values a cell: head width times KV heads
    int64_t num_rows;    // cells times streams
  };
  std::vector<Tensor> tensors;  // K and V of every layer

  int64_t num_values() const;
  // Bytes when all are of one ggml type.
  int64_t BytesAs(int ggml_type) const;
};

// Builds a stock f16 context of `context_tokens` cells, decodes one token and lists the cache tensors of the graph. Costs the memory
// of that cache for a moment. kUnsupported when the model has no cache.
StatusOr<CacheLayout> ProbeLayout(const Model& stock_model, int context_tokens, int threads);

}  // namespace swivel

#endif  // SWIVEL_LLAMA_LAYOUT_H_
