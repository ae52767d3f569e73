// Swivel's attention as one operation on made-up data, for `swivel bench`; the twin of llama/stock_attention.h.
#ifndef SWIVEL_EVAL_PACKED_ATTENTION_H_
#define SWIVEL_EVAL_PACKED_ATTENTION_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/status.h"
#include "cache/group_store.h"
#include "cache/layer_cache.h"
#include "cache/spec.h"
#include "eval/thread_team.h"
#include "kernel/attend/attend.h"
#include "llama/stock_attention.h"

namespace swivel {

// Normal K, V and q; queries are the last of num_cells tokens and see what is not behind them.
struct AttentionData {
  // Cells repeat after `distinct_cells` of them: random numbers take longer than everything else.
  AttentionData(const AttentionShape& shape, int64_t distinct_cells);
  const float* K(int64_t cell) const { return &k[Row(cell)]; }
  const float* V(int64_t cell) const { return &v[Row(cell)]; }

  std::vector<float> k, v, q;
  std::vector<uint16_t> mask;

 private:
  size_t Row(int64_t cell) const { return static_cast<size_t>(cell % distinct_cells_) * row_values_; }
  int64_t distinct_cells_;
  size_t row_values_;
};

class PackedAttention {
 public:
  // `spec` counts as for a layer in the middle of a model. `data` and `team` must outlive the object.
  // Errors: kUnsupported (the codec cannot serve the width), kOutOfMemory.
  static StatusOr<std::unique_ptr<PackedAttention>> Create(const CacheSpec& spec, const AttentionShape& shape, const AttentionData& data,
                                                           const Kernels& kernels, ThreadTeam* team);
  void Run(int layer);
  // [num_queries][num_heads][head_width] of the last Run.
  std::span<const float> Output() const { return out_; }
  // K and V of one layer, scales counted.
  size_t CacheBytes() const { return cache_bytes_; }

 private:
  PackedAttention() = default;
  struct Layer {
    std::unique_ptr<GroupStore> k, v;    // rows packed as they come …
    std::unique_ptr<LayerCache> staged;  // … or later
    AttendPlan plan;

    Status Encode(const CacheSpec& spec, const StoreShape& shape, const AttentionData& data, const Kernels& kernels, ThreadTeam* team);
    Status Stage(const CacheSpec& spec, const StoreShape& shape, const AttentionData& data, const Kernels& kernels, ThreadTeam* team);
    size_t Bytes(const CacheSpec& spec, const StoreShape& shape) const;
  };

  const Kernels* kernels_ = nullptr;
  ThreadTeam* team_ = nullptr;
  std::vector<std::unique_ptr<Layer>> layers_;
  std::vector<float> out_;
  std::vector<uint8_t> memory_;
  uint8_t* counters_ = nullptr;
  uint8_t* scratch_ = nullptr;
  size_t cache_bytes_ = 0;
  AttendPlan* running_ = nullptr;
  std::function<void(int)> work_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_PACKED_ATTENTION_H_
