#include "plugin/staging.h"

#include "plugin/settings.h"

namespace swivel::plugin {

void StagingRound::Collect(std::span<KvTensor* const> tensors) {
  layers_.clear();
  tasks_.clear();
  next_ = 0;
  const LayerCache* last = nullptr;
  for (KvTensor* tensor : tensors) {
    LayerCache* cache = tensor->layer_cache();
    // The nodes of a layer stand together, so comparing with the last one finds most repeats; the others find nothing left to collect.
    if (cache == nullptr || cache == last) continue;
    last = cache;
    bool known = false;
    for (const Layer& layer : layers_) known |= layer.cache == cache;
    if (known) continue;
    std::vector<PackJob> jobs;
    cache->CollectReady(false, &jobs);
    if (jobs.empty()) continue;
    for (size_t j = 0; j < jobs.size(); ++j) tasks_.push_back({layers_.size(), j});
    layers_.push_back({cache, std::move(jobs)});
  }
}

void StagingRound::RunShare() {
  for (size_t i = next_.fetch_add(1, std::memory_order_relaxed); i < tasks_.size(); i = next_.fetch_add(1, std::memory_order_relaxed)) {
    Layer& layer = layers_[tasks_[i].layer];
    layer.cache->RunJob(kernels(), &layer.jobs[tasks_[i].job]);
  }
}

bool StagingRound::Commit() {
  if (next_ < tasks_.size()) return false;
  for (Layer& layer : layers_) layer.cache->Commit(layer.jobs);
  return true;
}

void RunStagingShare(ggml_tensor*, int, int, void* round) { static_cast<StagingRound*>(round)->RunShare(); }

}  // namespace swivel::plugin
