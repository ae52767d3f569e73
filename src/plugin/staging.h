// What is done for staged caches between two batches: bases of keys are made, groups are packed.
#ifndef SWIVEL_PLUGIN_STAGING_H_
#define SWIVEL_PLUGIN_STAGING_H_

#include <atomic>
#include <cstddef>
#include <span>
#include <vector>

#include "cache/layer_cache.h"
#include "ggml.h"
#include "plugin/kv_tensor.h"

namespace swivel::plugin {

// What is ready in the layers of a graph. A layer that gets its basis is packed in the next round. Collect and Commit by one thread,
// RunShare by all.
class StagingRound {
 public:
  // `tensors`: staged or not, of either side. `incoming`: tokens that the graph is going to write, to one stream at most `of_a_stream`.
  void Collect(std::span<KvTensor* const> tensors, int64_t incoming, int64_t of_a_stream);
  bool empty() const { return tasks_.empty(); }
  void RunShare();
  // False: not everything was run, and nothing is changed.
  bool Commit();

 private:
  struct Layer {
    KvTensor* keys;
    bool makes_basis;
    std::vector<PackJob> jobs;  // else
  };
  struct Task {
    size_t layer, part;  // of a layer: a head or a job
  };
  std::vector<Layer> layers_;
  std::vector<Task> tasks_;
  std::atomic<size_t> next_{0};
};

// A ggml_custom_op_t whose userdata is a StagingRound.
void RunStagingShare(ggml_tensor* target, int thread, int num_threads, void* round);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_STAGING_H_
