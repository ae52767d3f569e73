#include "plugin/staging.h"

#include <utility>

#include "plugin/kv_caches.h"
#include "plugin/log.h"
#include "plugin/settings.h"

namespace swivel::plugin {

void StagingRound::Collect(std::span<KvTensor* const> tensors, int64_t incoming, int64_t of_a_stream) {
  layers_.clear();
  tasks_.clear();
  next_ = 0;
  const LayerCache* last = nullptr;
  for (KvTensor* tensor : tensors) {
    LayerCache* cache = tensor->layer_cache();
    // The nodes of a layer stand together: comparing with the last one finds nearly all repeats.
    if (cache == nullptr || cache == last) continue;
    last = cache;
    KvTensor* keys = tensor->side() == Side::kKey ? tensor : tensor->partner();
    bool known = false;
    for (const Layer& layer : layers_) known |= layer.keys == keys;
    if (known) continue;
    Layer layer = {keys, keys->basis() != nullptr && keys->basis()->ready(), {}};
    if (!layer.makes_basis) layer.jobs = cache->CollectReady(incoming, of_a_stream);
    if (cache->over_budget()) SayOnce("the cache does not fit its budget although all old groups have the fewest bits");
    const size_t parts = layer.makes_basis ? static_cast<size_t>(keys->num_heads()) : layer.jobs.size();
    if (parts == 0) continue;
    for (size_t part = 0; part < parts; ++part) tasks_.push_back({layers_.size(), part});
    layers_.push_back(std::move(layer));
  }
}

void StagingRound::RunShare() {
  for (size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_.size(); i = next_.fetch_add(1, std::memory_order_relaxed)) {
    Layer& layer = layers_[tasks_[i].layer];
    if (layer.makes_basis) {
      layer.keys->basis()->Make(static_cast<int>(tasks_[i].part));
    } else {
      layer.keys->layer_cache()->RunJob(kernels(), &layer.jobs[tasks_[i].part]);
    }
  }
}

bool StagingRound::Commit() {
  if (next_ < tasks_.size()) return false;
  int frozen = 0;
  const KvTensor* keys = nullptr;  // of the last layer that got its basis
  for (Layer& layer : layers_) {
    if (!layer.makes_basis) {
      layer.keys->layer_cache()->Commit(layer.jobs);
    } else if (Status status = layer.keys->basis()->Install(); !status.ok()) {
      Say(layer.keys->name() + " stays exact: " + status.message());
    } else {
      ++frozen;
      keys = layer.keys;
    }
  }
  if (frozen == 0) return true;
  const std::string source = keys->basis()->Source();
  SayFirst("keys are packed in a basis made from " + source,
           Event("basis_frozen").Number("context", int64_t{keys->buffer().context}).Number("layers", int64_t{frozen}));
  return true;
}

void RunStagingShare(ggml_tensor*, int, int, void* round) { static_cast<StagingRound*>(round)->RunShare(); }

}  // namespace swivel::plugin
