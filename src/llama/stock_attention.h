// llama.cpp's own attention over its own cache, as one operation: what Swivel's kernels are measured against.
//
// The operation is GGML_OP_FLASH_ATTN_EXT of ggml's CPU backend, run by that backend on ggml's own threads, with tensors as llama.cpp
// lays them out: a cell is one row [head_width * num_kv_heads] of the cache's type, and K, V and Q are permuted views.
// llama.cpp also rotates q4_0 and q8_0 caches by default; that is done outside of the operation and is not counted here.
#ifndef SWIVEL_LLAMA_STOCK_ATTENTION_H_
#define SWIVEL_LLAMA_STOCK_ATTENTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"

namespace swivel {

struct AttentionShape {
  int head_width = 128;
  int num_heads = 32;  // query heads; a multiple of num_kv_heads
  int num_kv_heads = 8;
  int num_queries = 1;
  int64_t num_cells = 4096;
  int num_layers = 1;  // caches of this shape; a run reads one, so that a small cache need not stay in the processor's own

  size_t RowValues() const { return static_cast<size_t>(head_width) * static_cast<size_t>(num_kv_heads); }
  size_t QueryValues() const {  // of the queries, and of the output
    return static_cast<size_t>(head_width) * static_cast<size_t>(num_heads) * static_cast<size_t>(num_queries);
  }
};

class StockAttention {
 public:
  // Allocates everything. `ggml_type` is that of K and V. Errors: kUnsupported (no such operation for the type and width),
  // kOutOfMemory.
  static StatusOr<std::unique_ptr<StockAttention>> Create(int ggml_type, const AttentionShape& shape, int threads);
  ~StockAttention();

  // Stores one cell in all layers; `k` and `v` hold RowValues() floats, heads one after the other.
  void SetCell(int64_t cell, const float* k, const float* v);
  // `q` is [num_queries][num_heads][head_width]; `mask` f16 [num_queries][num_cells].
  void SetQueries(std::span<const float> q, std::span<const uint16_t> mask);
  Status Run(int layer);
  // Sends ggml's threads to sleep; they would poll for a third of a second and take the processor from whoever is measured next. The
  // next Run wakes them.
  void Park();
  // [num_queries][num_heads][head_width] of the last Run of `layer`.
  std::span<const float> Output(int layer) const;
  // K and V of one layer.
  size_t CacheBytes() const;

 private:
  StockAttention();
  struct Ggml;
  std::unique_ptr<Ggml> ggml_;
};

}  // namespace swivel

#endif  // SWIVEL_LLAMA_STOCK_ATTENTION_H_
