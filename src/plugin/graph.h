// Computing a graph of the host: the nodes that touch KV tensors are ours, the rest is the host's CPU backend's.
//
// The whole graph is handed to the CPU backend in one piece, with our nodes replaced by copies of type CUSTOM: so threads, barriers and
// every other operation are the host's own. The originals are put back, since hosts compute the same graph again. Nothing is kept from
// one call to the next but memory: with an eval callback the host computes one node at a time.
#ifndef SWIVEL_PLUGIN_GRAPH_H_
#define SWIVEL_PLUGIN_GRAPH_H_

#include <atomic>
#include <utility>
#include <vector>

#include "base/lazy_memory.h"
#include "ggml-backend-impl.h"
#include "ggml-impl.h"
#include "kernel/attend/attend.h"
#include "plugin/flash_attention.h"
#include "plugin/set_rows.h"
#include "plugin/staging.h"

namespace swivel::plugin {

class GraphRunner {
 public:
  // `cpu`: a CPU backend of our own; must outlive this.
  explicit GraphRunner(ggml_backend_t cpu) : cpu_(cpu) {}

  void SetNumThreads(int num_threads) { num_threads_ = num_threads; }

  // Errors of ours are said on stderr and reported as GGML_STATUS_FAILED or GGML_STATUS_ALLOC_FAILED.
  ggml_status Compute(ggml_cgraph* graph);

 private:
  // Finds the nodes that touch KV tensors, learns head widths from them, and has the stores created.
  void Inspect(ggml_cgraph* graph);
  void Replace(ggml_cgraph* graph);
  void Restore(ggml_cgraph* graph);
  bool ReplaceSetRows(ggml_cgraph* graph, int index);
  bool ReplaceAttention(ggml_cgraph* graph, int index);
  void Substitute(ggml_cgraph* graph, int index, ggml_custom_op_t function, void* userdata);
  bool BindPlans();
  // What the attention nodes have counted goes to the counters of their caches.
  void CollectCounts();
  // Packs what has left the exact window in layers that this graph writes to, as a graph of one node of its own, so that all threads take part.
  ggml_status RunStaging(ggml_cgraph* graph);
  ggml_status RunStagingRound(ggml_cgraph* graph);
  ggml_status RunRange(ggml_cgraph* graph, int begin, int end);
  ggml_status RunShadow(ggml_cgraph* graph, int index);

  ggml_backend_t cpu_;
  int num_threads_ = 1;

  std::vector<int> kv_nodes_;      // nodes that touch a KV tensor, in order
  std::vector<int> shadow_nodes_;  // those of them that are computed one by one on an f16 image
  std::vector<KvTensor*> tensors_;
  std::vector<ggml_tensor> copies_;
  std::vector<std::pair<int, ggml_tensor*>> originals_;
  std::vector<SetRowsTask> set_rows_;
  std::vector<AttentionTask> attention_;
  StagingRound staging_;
  LazyMemory counters_, scratch_;
  std::atomic<bool> bad_index_{false};
};

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_GRAPH_H_
