// All live buffers of the plugin and the KV tensors in them; the only state that contexts share.
//
// Goals: find the KvTensor behind any ggml tensor, learn head widths from attention nodes, create the packed stores of a context at once.
// One mutex guards the lists; it is never held while kernels run.
#ifndef SWIVEL_PLUGIN_KV_CACHES_H_
#define SWIVEL_PLUGIN_KV_CACHES_H_

#include <atomic>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/lazy_memory.h"
#include "cache/make_layer.h"
#include "cache/spec.h"
#include "ggml-backend-impl.h"
#include "plugin/kv_tensor.h"
#include "plugin/report.h"

namespace swivel::plugin {

struct Counters {
  std::atomic<uint64_t> set_rows{0};
  std::atomic<uint64_t> flash_attention{0};
  std::atomic<uint64_t> shadow{0};
  // Rows of K and V: by the model, and by the host's set_tensor and get_tensor (states, copies through f16).
  std::atomic<uint64_t> rows_written{0}, rows_restored{0}, rows_read{0};
  std::atomic<uint64_t> restored_since_graph{0};  // not yet an event
  std::atomic<uint64_t> v_rows{0}, sparse_v_rows{0};  // AttendPlan::ValueRows, SkippedValueRows; with sparse_v only
};

// What stands behind one ggml buffer of ours: ordinary memory for ordinary tensors (activations, weights that come through RPC), and
// the KV tensors, whose place in that memory is never touched once they are packed.
struct KvBuffer {
  LazyMemory memory;
  size_t size = 0;
  CacheSpec spec;  // in force when the buffer was allocated
  // Buffers of one llama context share a number (a sliding-window model has two caches); 0: not known yet (RPC).
  int context = 0;
  bool sized_by_us = false;                  // get_alloc_size answered for its tensors: they have packed sizes
  std::atomic<bool> written_unknown{false};  // bytes came for a cache tensor before its root was seen (RPC)
  std::atomic<bool> complained{false};       // attention over rows in this buffer that are not packed: said once
  std::map<uint8_t*, std::unique_ptr<KvTensor>> tensors;
  Counters counters;
};

class KvCaches {
 public:
  void Add(KvBuffer* buffer);
  // Says the totals of a context with its last buffer.
  void Remove(KvBuffer* buffer);
  // The same for what is still alive when the process exits. Skipped where a lock is held then: that must not hang the exit.
  void SayTotalsAtExit();

  // A number for the buffers of a new context.
  int NewContext();

  // The KV tensor whose memory `tensor` (a root, a view, or through RPC a view without view_src) shows; *offset = where it starts in
  // the f16 image. Null for everything else. Roots are registered when they are first seen with their data.
  KvTensor* Find(const ggml_tensor* tensor, size_t* offset = nullptr);

  // Learns from a FLASH_ATTN_EXT node. Errors: kUnsupported or kInvalidArgument when the plugin cannot serve this attention; the message
  // is for the user. Tensors that are not (yet) ours are ignored.
  Status Learn(const ggml_tensor* attention);

  // Creates the stores of every learnt tensor in the contexts of `tensors`, says so in one line a context. A tensor that cannot be
  // packed stays plain, loudly.
  void CreateStores(std::span<KvTensor* const> tensors);

  // Whole rows between two packed tensors of one shape; false: not possible, the host then copies through f16.
  bool CopyRows(KvTensor* from, size_t from_offset, KvTensor* to, size_t to_offset, size_t size);

  void Clear(KvBuffer* buffer, uint8_t byte);

  // Records that rows of these tensors' buffers were restored since the last graph.
  void RecordRestored(std::span<KvTensor* const> tensors);

  // JSON text about every live cache; see docs/plugin.md.
  std::string Report();

 private:
  KvTensor* Register(KvBuffer* buffer, const ggml_tensor* root);
  // Layers are counted over the KV tensors of a context.
  LayerPlace PlaceOf(const KvTensor& tensor);
  // Gives a layer the basis of its keys where that needs no statistics, or says where it will come from.
  Status ChooseBasis(const CacheSpec& spec, LayerCache* layer, KvTensor* k);
  // Of a context whose spec has store=, else null.
  std::shared_ptr<BasisKeeper> KeeperOf(const KvBuffer& buffer);
  void CreateStoresOfContext(int context);
  // What the spec says of layers or heads that are not there has no effect; the user hears of it.
  void SayUnmetOverrides(int context);
  // f16 bytes of all KV tensors of a buffer's context.
  size_t NominalBytes(const KvBuffer& own) const;
  // Of a plain, learnt tensor; staged caches: of its partner too.
  Status CreateStore(KvTensor* tensor);
  void EndBuffer(const KvBuffer& buffer);

  std::mutex mutex_;
  std::vector<KvBuffer*> buffers_;
  std::map<int, Totals> ended_;  // of buffers that are gone, while others of their context live
  int last_context_ = 0;
  std::map<int, std::weak_ptr<BasisKeeper>> keepers_;  // of contexts
};

// The process's caches. Never destroyed: a host may free its buffers while the process exits.
KvCaches& caches();

// The KvBuffer behind a ggml buffer, null when it is not ours or is a zero-size dummy of the memory-fit step.
KvBuffer* BufferOf(const ggml_tensor* root);
// True when the tensor's buffer, dummies included, is of our type.
bool InOurBuffer(const ggml_tensor* root);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KV_CACHES_H_
