#include "kernel/attend/attend.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace swivel {
namespace {

// Rows (queries times heads of a group) a work item aims at: enough to pay for unpacking a chunk, few enough for the L2 cache.
constexpr int kTargetRows = 96;
// The cells are split too when there are few blocks of queries, so that a single query keeps many threads busy: into 16 work items however
// small they get, into up to 128 while each still reads so much that its partial result costs nothing. Constants, not the number of threads:
// results must not depend on that.
constexpr int64_t kTargetItems = 16;
constexpr int64_t kMinSplitCells = 256;
constexpr int64_t kMostItems = 128;
constexpr int64_t kLargeSplitCells = 2048;

constexpr size_t RoundUp64(size_t bytes) { return (bytes + 63) / 64 * 64; }

Status CheckView(const char* name, const KvView& view) {
  if (view.codec == nullptr || view.base == nullptr) return Status::Invalid(std::string(name) + " view is empty");
  return CheckWidth(*view.codec, view.width);
}

}  // namespace

Status AttendPlan::Make(const AttendArgs& args, int max_threads, AttendPlan* plan) {
  Status status = CheckView("key", args.k);
  if (status.ok()) status = CheckView("value", args.v);
  if (!status.ok()) return status;
  if (args.num_kv_heads < 1 || args.num_heads < 1 || args.num_heads % args.num_kv_heads != 0) {
    return Status::Invalid("query heads (" + std::to_string(args.num_heads) + ") must be a multiple of KV heads (" +
                           std::to_string(args.num_kv_heads) + ")");
  }
  if (args.num_queries < 1 || args.num_cells < 1 || args.num_streams < 1 || max_threads < 1) {
    return Status::Invalid("queries, cells, streams and threads must be at least 1");
  }
  if (args.q == nullptr || args.out == nullptr) return Status::Invalid("query or output is null");
  if (!(args.sparse_v >= 0.0f && args.sparse_v <= kMaxSparseV)) {
    return Status::Invalid("sparse_v (" + std::to_string(args.sparse_v) + ") must be within 0 and 0.1");
  }

  plan->args = args;
  plan->max_threads = max_threads;
  plan->group_heads = args.num_heads / args.num_kv_heads;
  plan->block_queries = std::clamp(kTargetRows / plan->group_heads, 1, args.num_queries);
  plan->num_query_blocks = (args.num_queries + plan->block_queries - 1) / plan->block_queries;
  const int64_t blocks = static_cast<int64_t>(args.num_streams) * args.num_kv_heads * plan->num_query_blocks;
  const int64_t wanted_splits = std::max<int64_t>({1, kTargetItems / blocks, std::min(kMostItems / blocks, args.num_cells / kLargeSplitCells)});
  const int64_t cells = (args.num_cells + wanted_splits - 1) / wanted_splits;
  plan->split_cells = std::max((cells + kGroupTokens - 1) / kGroupTokens * kGroupTokens, kMinSplitCells);
  plan->num_splits = static_cast<int>((args.num_cells + plan->split_cells - 1) / plan->split_cells);
  plan->num_items = blocks * plan->num_splits;
  plan->num_blocks_ = static_cast<size_t>(blocks);

  const size_t rows = static_cast<size_t>(plan->group_heads) * plan->block_queries;
  plan->partial_floats = plan->num_splits > 1 ? RoundUp64(rows * (args.v.width + 2) * sizeof(float)) / sizeof(float) : 0;
  // Upper bounds for both forms of a tile (bytes or floats); what they must hold is Scratch in rows-inl.h.
  const size_t tiles = kGroupTokens * sizeof(float) * (static_cast<size_t>(args.k.width) + args.v.width);
  const size_t per_row = sizeof(float) * (static_cast<size_t>(args.k.width) + args.v.width + 20) + static_cast<size_t>(args.k.width) +
                         3 * sizeof(uint64_t) + kGroupTokens * (sizeof(float) + sizeof(uint16_t));
  plan->thread_bytes = RoundUp64(tiles + rows * per_row + args.k.width * sizeof(float) + 16384);
  plan->counter_bytes_ = RoundUp64(64 + plan->num_blocks_ * sizeof(std::atomic<int32_t>));
  plan->scratch_bytes_total_ = plan->partial_floats * sizeof(float) * plan->num_items + plan->thread_bytes * max_threads;
  return Status();
}

void AttendPlan::Bind(void* counters, void* scratch_memory) {
  auto* totals = static_cast<uint8_t*>(counters);
  next_item = new (totals) std::atomic<int64_t>(0);
  value_rows = new (totals + 8) std::atomic<int64_t>(0);
  skipped_value_rows = new (totals + 16) std::atomic<int64_t>(0);
  splits_done = reinterpret_cast<std::atomic<int32_t>*>(totals + 64);
  for (size_t i = 0; i < num_blocks_; ++i) new (splits_done + i) std::atomic<int32_t>(0);
  partials = static_cast<float*>(scratch_memory);
  scratch = static_cast<uint8_t*>(scratch_memory) + partial_floats * sizeof(float) * num_items;
}

}  // namespace swivel
