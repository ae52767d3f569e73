// Attention of queries over a packed cache.
//
//   out[i, h] = sum_t w_t v_t / (sum_t w_t + e^(sink_h - m)),   w_t = e^(s_t - m),   s_t = f(scale * q_ih . k_t) + slope_h * mask[i, t]
// over the cells t whose mask is not -inf; f(x) = cap * tanh(x / cap) when logit_softcap > 0, else x; slope_h = 1 without ALiBi, else
// the ALiBi slope of ggml's max_bias. K and V head h / (num_heads / num_kv_heads). A row whose mask is all -inf gives zeros.
// NaN: a visible cell that holds NaN makes the output NaN; masked cells never contribute.
//
// Sparse V: with sparse_v = eps > 0, groups of cells whose weights sum to next to nothing are not added up. For each row the weights left out are at most
// eps of its divisor, so an output changes by at most eps * max |v| over the cells it sees (kernel/attend/sparse_v-inl.h has the rule and the proof). The
// divisor keeps them. NaN is seen as before.
//
// Threads: Make once, then every thread of the team calls Run(thread, num_threads) once. Work is taken from a shared counter; long
// contexts are split over the cells, and whoever finishes the last split of a block merges them in order, so the result does not
// depend on the number of threads. No allocation, no locks inside Run.
#ifndef SWIVEL_KERNEL_ATTEND_ATTEND_H_
#define SWIVEL_KERNEL_ATTEND_ATTEND_H_

#include <atomic>
#include <cstdint>

#include "base/status.h"
#include "kernel/kernels.h"

namespace swivel {

// Cells that are not packed (yet): f16 rows in the model's own basis, as the host wrote them. Strides are in bytes.
struct ExactRows {
  const uint64_t* bits = nullptr;  // [streams][groups][2]: a bit for each cell that is read here and not from the packed groups; null: none
  int64_t groups_per_stream = 0;   // of PackedTiers, too
  const uint8_t *k = nullptr, *v = nullptr;  // the row of cell 0 of stream 0; the values of a head stand side by side, head after head
  size_t k_row_stride = 0, v_row_stride = 0, k_stream_stride = 0, v_stream_stride = 0;
};

// Where the packed groups of a KV head are: in which view, and the head's number there.
struct HeadPlace {
  int view = 0, head = 0;
};

// Further views of packed groups: view 0 is AttendArgs::k and v, view t the one here at t - 1. All have the same width.
// Either groups choose: they have been packed again with fewer bits (cache/layer_cache.h); the views, called tiers, then hold all heads and differ
// in codes and side data only: transforms and frames are the same. Or heads choose, which then have codecs of their own: nothing but the width
// is the same, and each view holds some of the heads.
inline constexpr int kMaxTiers = 3;
struct PackedTiers {
  const uint8_t *k = nullptr, *v = nullptr;  // [streams][groups]: the tier of each group's keys and values; null: all are in tier 0
  int num_k = 1, num_v = 1;
  KvView more_k[kMaxTiers - 1], more_v[kMaxTiers - 1];
  const HeadPlace *k_heads = nullptr, *v_heads = nullptr;  // [KV heads]; null: view 0 has them all. Both sides' groups must then be in tier 0
};

// Beyond a tenth of the divisor a change of the output is not small.
inline constexpr float kMaxSparseV = 0.1f;

// Strides are in bytes.
struct AttendArgs {
  KvView k, v;
  ExactRows exact;
  PackedTiers tiers;
  int first_stream = 0;  // stream of the cache that stream 0 of this call reads
  int num_streams = 1;
  int num_heads = 0;  // query heads; a multiple of num_kv_heads
  int num_kv_heads = 0;
  int num_queries = 0;  // per stream
  int64_t num_cells = 0;

  const float* q = nullptr;  // [num_streams][num_heads][num_queries][k.width], innermost contiguous
  size_t q_query_stride = 0, q_head_stride = 0, q_stream_stride = 0;
  float* out = nullptr;  // [num_streams][num_heads][num_queries][v.width], innermost contiguous
  size_t out_query_stride = 0, out_head_stride = 0, out_stream_stride = 0;
  const uint16_t* mask = nullptr;  // f16 [num_streams][num_heads or 1][num_queries][num_cells]; null: every cell is visible
  size_t mask_query_stride = 0, mask_head_stride = 0, mask_stream_stride = 0;
  const float* sinks = nullptr;  // [num_heads] or null

  float scale = 1.0f;  // multiplies q.k; usually 1/sqrt(width)
  float max_bias = 0.0f;
  float logit_softcap = 0.0f;
  float sparse_v = 0.0f;  // 0: off; at most kMaxSparseV
};

class AttendPlan {
 public:
  // Checks the arguments and lays out the work for at most `max_threads` threads.
  // Errors: kInvalidArgument for shapes that do not fit, kUnsupported for widths beyond kMaxHeadWidth.
  static Status Make(const AttendArgs& args, int max_threads, AttendPlan* plan);

  // Memory that the caller provides, 64-byte aligned, contents need not be initialised. Counters belong to one execution; scratch may
  // be shared by plans that run one after the other.
  size_t CounterBytes() const { return counter_bytes_; }
  size_t ScratchBytes() const { return scratch_bytes_total_; }
  // Must be called before every execution (it resets the counters).
  void Bind(void* counters, void* scratch_memory);

  // To be called by each of `num_threads` (<= max_threads) threads.
  void Run(const Kernels& kernels, int thread, int num_threads) { kernels.attend(*this, thread, num_threads); }

  // Of the execution since Bind, once all threads have returned; both 0 without sparse V. A value row is the value of a visible cell that a query of a
  // query head adds to its output: as many as mask entries that are not -inf, counted for every head. Skipped ones were left out.
  int64_t ValueRows() const { return value_rows->load(std::memory_order_relaxed); }
  int64_t SkippedValueRows() const { return skipped_value_rows->load(std::memory_order_relaxed); }

  // The fields below are for the kernels.
  AttendArgs args;
  int group_heads = 0;        // query heads that share a KV head
  int block_queries = 0;      // queries a work item covers
  int num_query_blocks = 0;   // per stream
  int64_t split_cells = 0;    // cells a work item covers
  int num_splits = 0;
  int64_t num_items = 0;      // streams * KV heads * query blocks * splits
  int max_threads = 0;
  size_t partial_floats = 0;  // floats of one item's partial result: maxima, sums, outputs of its rows
  size_t thread_bytes = 0;    // scratch of one thread

  std::atomic<int64_t>* next_item = nullptr;
  std::atomic<int64_t>*value_rows = nullptr, *skipped_value_rows = nullptr;
  std::atomic<int32_t>* splits_done = nullptr;  // one a block
  float* partials = nullptr;
  uint8_t* scratch = nullptr;

 private:
  size_t counter_bytes_ = 0;
  size_t scratch_bytes_total_ = 0;
  size_t num_blocks_ = 0;
};

}  // namespace swivel

#endif  // SWIVEL_KERNEL_ATTEND_ATTEND_H_
