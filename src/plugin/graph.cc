#include "plugin/graph.h"

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "plugin/flash_attention.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/kv_names.h"
#include "plugin/log.h"
#include "plugin/shadow.h"
#include "plugin/trace.h"

namespace swivel::plugin {
namespace {

// Most tensors of a graph are activations in a buffer of ours; the name test keeps them away from the caches' lock.
KvTensor* FindFast(const ggml_tensor* tensor, size_t* offset = nullptr) {
  const ggml_tensor* root = RootOf(tensor);
  return HasCacheName(root) && InOurBuffer(root) ? caches().Find(tensor, offset) : nullptr;
}

bool Grow(LazyMemory* memory, size_t bytes) {
  if (memory->size() >= bytes) return true;
  auto larger = LazyMemory::Reserve(bytes + bytes / 2);
  if (!larger.ok()) {
    Say(larger.status().message());
    return false;
  }
  *memory = std::move(*larger);
  return true;
}

size_t RoundTo64(size_t bytes) { return (bytes + 63) / 64 * 64; }

bool Is(const ggml_tensor* node, int op) { return static_cast<int>(node->op) == op; }

// Positions of `num_rows` tokens, if `node` rotates by them. (Several positions a token, as multimodal models have: the first comes first.)
const int32_t* RotaryPositions(const ggml_tensor* node, int64_t num_rows) {
  if (!Is(node, host().op.rope)) return nullptr;
  const ggml_tensor* positions = node->src[1];
  if (positions == nullptr || positions->type != GGML_TYPE_I32 || positions->ne[0] % num_rows != 0) return nullptr;
  return static_cast<const int32_t*>(positions->data);
}

// The positions of the tokens that a SET_ROWS node writes: those that its keys were rotated by, or, where something comes between, those of
// any rotation in the graph. Null when nothing tells.
const int32_t* PositionsOf(const ggml_cgraph* graph, const ggml_tensor* set_rows) {
  const int64_t num_rows = set_rows->src[0]->ne[1];
  if (const int32_t* positions = RotaryPositions(RootOf(set_rows->src[0]), num_rows); positions != nullptr) return positions;
  for (int i = 0; i < graph->n_nodes; ++i) {
    if (const int32_t* positions = RotaryPositions(graph->nodes[i], num_rows); positions != nullptr) return positions;
  }
  return nullptr;
}

// Rows that are read uncompressed although they are in our buffer: possible only where nothing could be refused beforehand (RPC), or
// where a new llama.cpp has caches under names not known here.
void ComplainOnce(const ggml_tensor* node, const ggml_tensor* root) {
  KvBuffer* buffer = BufferOf(root);
  if (buffer == nullptr || buffer->complained.exchange(true)) return;
  Say(std::string(host().ggml_op_name(node->op)) + " reads '" + root->name + "' (" + host().ggml_type_name(root->type) +
      "), which is not compressed: the plugin needs flash attention, which some models cannot use (T5), over an f16 cache named cache_k_l<layer>");
}

}  // namespace

ggml_status GraphRunner::Compute(ggml_cgraph* graph) {
  Inspect(graph);
  if (kv_nodes_.empty()) return host().ggml_backend_graph_compute(cpu_, graph);

  // Before anything of this batch is marked: what is packed here was written by batches that are complete.
  ggml_status status = RunStaging(graph);
  Replace(graph);
  if (status == GGML_STATUS_SUCCESS && !BindPlans()) status = GGML_STATUS_ALLOC_FAILED;
  const bool bound = status == GGML_STATUS_SUCCESS;
  int begin = 0;
  for (size_t i = 0; i < shadow_nodes_.size() && status == GGML_STATUS_SUCCESS; ++i) {
    status = RunRange(graph, begin, shadow_nodes_[i]);
    if (status == GGML_STATUS_SUCCESS) status = RunShadow(graph, shadow_nodes_[i]);
    begin = shadow_nodes_[i] + 1;
  }
  if (status == GGML_STATUS_SUCCESS) status = RunRange(graph, begin, graph->n_nodes);
  Restore(graph);
  if (bound) CollectCounts();
  if (bad_index_.exchange(false)) {
    SayOnce("the host stored a row outside of its KV cache");
    status = GGML_STATUS_FAILED;
  }
  return status;
}

void GraphRunner::Inspect(ggml_cgraph* graph) {
  kv_nodes_.clear();
  tensors_.clear();
  bool all_stored = true;
  for (int i = 0; i < graph->n_nodes; ++i) {
    const ggml_tensor* node = graph->nodes[i];
    if (host().IsViewOp(node)) continue;
    const size_t before = tensors_.size();
    if (KvTensor* kv = FindFast(node); kv != nullptr) tensors_.push_back(kv);
    for (const ggml_tensor* source : node->src) {
      if (source == nullptr) continue;
      if (KvTensor* kv = FindFast(source); kv != nullptr) tensors_.push_back(kv);
    }
    if (tensors_.size() == before) {
      if (Is(node, host().op.flash_attn_ext) && HasCacheName(RootOf(node->src[1]))) ComplainOnce(node, RootOf(node->src[1]));
      continue;
    }
    kv_nodes_.push_back(i);
    if (TraceOn()) TraceNode(node);
    if (Is(node, host().op.flash_attn_ext)) {
      if (Status status = caches().Learn(node); !status.ok()) SayOnce(status.message() + "; the tensor stays f16");
    }
    for (size_t j = before; j < tensors_.size(); ++j) all_stored = all_stored && !tensors_[j]->plain();
  }
  if (!all_stored) caches().CreateStores(tensors_);
  caches().RecordRestored(tensors_);
}

void GraphRunner::Replace(ggml_cgraph* graph) {
  // Pointers into these go into the graph: no growth after this.
  copies_.clear();
  copies_.reserve(kv_nodes_.size());
  set_rows_.clear();
  set_rows_.reserve(kv_nodes_.size());
  attention_.clear();
  attention_.reserve(kv_nodes_.size());
  originals_.clear();
  shadow_nodes_.clear();
  for (const int index : kv_nodes_) {
    const ggml_tensor* node = graph->nodes[index];
    const bool served = Is(node, host().op.set_rows)         ? ReplaceSetRows(graph, index)
                        : Is(node, host().op.flash_attn_ext) ? ReplaceAttention(graph, index)
                                                             : false;
    if (!served) shadow_nodes_.push_back(index);
  }
}

void GraphRunner::Restore(ggml_cgraph* graph) {
  for (const auto& [index, node] : originals_) graph->nodes[index] = node;
}

void GraphRunner::Substitute(ggml_cgraph* graph, int index, ggml_custom_op_t function, void* userdata) {
  ggml_tensor* original = graph->nodes[index];
  ggml_tensor& copy = copies_.emplace_back(*original);
  copy.op = static_cast<ggml_op>(host().op.custom);
  const ggml_custom_op_params params = {function, GGML_N_TASKS_MAX, userdata};
  static_assert(sizeof(params) <= sizeof(copy.op_params));
  std::memset(copy.op_params, 0, sizeof(copy.op_params));
  std::memcpy(copy.op_params, &params, sizeof(params));
  originals_.emplace_back(index, original);
  graph->nodes[index] = &copy;
}

bool GraphRunner::ReplaceSetRows(ggml_cgraph* graph, int index) {
  const ggml_tensor* node = graph->nodes[index];
  size_t offset = 0;
  KvTensor* kv = FindFast(node, &offset);
  SetRowsTask task;
  if (kv == nullptr || kv->plain() || !DescribeSetRows(node, kv, offset, &task)) return false;
  task.bad_index = &bad_index_;
  if (task.layer != nullptr) MarkRows(task, PositionsOf(graph, node), kv->side() == Side::kKey ? kv->basis() : nullptr);
  Substitute(graph, index, RunSetRows, &set_rows_.emplace_back(task));
  kv->buffer().counters.set_rows.fetch_add(1, std::memory_order_relaxed);
  kv->buffer().counters.rows_written.fetch_add(static_cast<uint64_t>(node->src[0]->ne[1]), std::memory_order_relaxed);
  return true;
}

bool GraphRunner::ReplaceAttention(ggml_cgraph* graph, int index) {
  const ggml_tensor* node = graph->nodes[index];
  size_t k_offset = 0, v_offset = 0;
  const KvTensor* k = FindFast(node->src[1], &k_offset);
  const KvTensor* v = FindFast(node->src[2], &v_offset);
  if (k == nullptr || v == nullptr || k->plain() || v->plain()) return false;
  AttendArgs args;
  if (!DescribeAttention(node, *k, k_offset, *v, v_offset, &args)) return false;
  args.sparse_v = static_cast<float>(k->buffer().spec.sparse_v);
  AttentionTask& task = attention_.emplace_back();
  if (Status status = AttendPlan::Make(args, num_threads_, &task.plan); !status.ok()) {
    SayOnce(status.message());
    attention_.pop_back();
    return false;
  }
  if (k->basis() != nullptr) task.capture = k->basis()->capture();
  task.buffer = &k->buffer();
  Substitute(graph, index, RunAttention, &task);
  k->buffer().counters.flash_attention.fetch_add(1, std::memory_order_relaxed);
  return true;
}

bool GraphRunner::BindPlans() {
  // The nodes run one after the other, so they share the scratch; there is no moment between two nodes at which counters could be
  // reset, so each plan has its own.
  size_t counter_bytes = 0, scratch_bytes = 0;
  for (const AttentionTask& task : attention_) {
    counter_bytes += RoundTo64(task.plan.CounterBytes());
    scratch_bytes = std::max(scratch_bytes, task.plan.ScratchBytes());
  }
  if (!Grow(&counters_, counter_bytes) || !Grow(&scratch_, scratch_bytes)) return false;
  uint8_t* counters = counters_.data();
  for (AttentionTask& task : attention_) {
    task.plan.Bind(counters, scratch_.data());
    counters += RoundTo64(task.plan.CounterBytes());
  }
  return true;
}

void GraphRunner::CollectCounts() {
  for (const AttentionTask& task : attention_) {
    if (task.plan.args.sparse_v == 0.0f) continue;
    Counters& counters = task.buffer->counters;
    counters.v_rows.fetch_add(static_cast<uint64_t>(task.plan.ValueRows()), std::memory_order_relaxed);
    counters.sparse_v_rows.fetch_add(static_cast<uint64_t>(task.plan.SkippedValueRows()), std::memory_order_relaxed);
  }
}

ggml_status GraphRunner::RunStaging(ggml_cgraph* graph) {
  // Only layers whose keys this graph writes: there a batch begins. A host that computes node by node has graphs in between, in which the
  // keys of a batch are new and its values are not, or neither has been attended to.
  std::vector<KvTensor*> written;
  int64_t incoming = 0, of_a_stream = 0;
  for (const int index : kv_nodes_) {
    const ggml_tensor* node = graph->nodes[index];
    if (!Is(node, host().op.set_rows)) continue;
    size_t offset = 0;
    KvTensor* keys = FindFast(node, &offset);
    if (keys == nullptr || keys->side() != Side::kKey || keys->layer_cache() == nullptr) continue;
    written.push_back(keys);
    incoming = std::max(incoming, node->src[0]->ne[1]);
    // All layers of a model write one batch.
    SetRowsTask task;
    if (of_a_stream == 0 && DescribeSetRows(node, keys, offset, &task)) of_a_stream = MostRowsOfAStream(task, keys->num_cells());
  }
  if (of_a_stream == 0) of_a_stream = incoming;
  // A round packs what the one before has made a basis for, and decays what it has packed.
  for (int round = 0; round < 2 + kMaxTiers; ++round) {
    staging_.Collect(written, incoming, of_a_stream);
    if (staging_.empty()) break;
    if (const ggml_status status = RunStagingRound(graph); status != GGML_STATUS_SUCCESS) return status;
  }
  return GGML_STATUS_SUCCESS;
}

ggml_status GraphRunner::RunStagingRound(ggml_cgraph* graph) {
  // Like a node of the graph (hosts skip nodes without the right flags), but it reads and writes nothing.
  ggml_tensor node = *graph->nodes[kv_nodes_.front()];
  std::fill(std::begin(node.src), std::end(node.src), nullptr);
  node.op = static_cast<ggml_op>(host().op.custom);
  const ggml_custom_op_params params = {RunStagingShare, GGML_N_TASKS_MAX, &staging_};
  std::memcpy(node.op_params, &params, sizeof(params));
  ggml_tensor* nodes[] = {&node};
  ggml_cgraph round = *graph;
  round.nodes = nodes;
  round.n_nodes = 1;
  round.leafs = nullptr;
  round.n_leafs = 0;
  round.uid = 0;
  const ggml_status status = host().ggml_backend_graph_compute(cpu_, &round);
  if (status != GGML_STATUS_SUCCESS) return status;
  if (!staging_.Commit()) {
    SayOnce("the host did not run the packing of the cache");
    return GGML_STATUS_FAILED;
  }
  return status;
}

ggml_status GraphRunner::RunRange(ggml_cgraph* graph, int begin, int end) {
  if (begin == end) return GGML_STATUS_SUCCESS;
  if (begin == 0 && end == graph->n_nodes) return host().ggml_backend_graph_compute(cpu_, graph);
  ggml_cgraph part = *graph;
  part.nodes = graph->nodes + begin;
  part.n_nodes = end - begin;
  part.leafs = nullptr;
  part.n_leafs = 0;
  part.uid = 0;
  return host().ggml_backend_graph_compute(cpu_, &part);
}

ggml_status GraphRunner::RunShadow(ggml_cgraph* graph, int index) {
  ggml_tensor* node = graph->nodes[index];
  for (int i = -1; i < GGML_MAX_SRC; ++i) {
    const ggml_tensor* tensor = i < 0 ? node : node->src[i];
    const KvTensor* kv = tensor != nullptr ? FindFast(tensor) : nullptr;
    if (kv == nullptr) continue;
    if (!kv->plain()) {
      kv->buffer().counters.shadow.fetch_add(1, std::memory_order_relaxed);
    } else if (!Is(node, host().op.set_rows)) {
      ComplainOnce(node, RootOf(tensor));
    }
    break;
  }
  Shadow shadow;
  if (Status status = shadow.Attach(node); !status.ok()) {
    Say(status.message());
    return GGML_STATUS_ALLOC_FAILED;
  }
  const ggml_status status = RunRange(graph, index, index + 1);
  shadow.Detach();
  return status;
}

}  // namespace swivel::plugin
