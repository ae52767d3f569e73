// What the plugin tests share: the loaded plugin, a cache as llama.cpp builds it, and the graphs llama.cpp runs on it.
#ifndef SWIVEL_TESTS_PLUGIN_HARNESS_H_
#define SWIVEL_TESTS_PLUGIN_HARNESS_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpp.h"
#include "ggml.h"

namespace swivel::plugin_test {

// Loads the plugin once a process and returns its registry; fails the test when it does not load.
ggml_backend_reg_t PluginRegistry();
ggml_backend_dev_t PluginDevice();
ggml_backend_buffer_type_t PluginBufferType();
// Sets the spec of caches that are allocated from now on; returns the error text, empty when there is none.
std::string SetKv(const std::string& spec);
std::string Report();

struct Shape {
  int width = 64;
  int num_kv_heads = 3;
  int num_heads = 9;
  int num_cells = 256;
  int num_streams = 1;
  int num_layers = 2;
  ggml_type type = GGML_TYPE_F16;
  int64_t row() const { return static_cast<int64_t>(width) * num_kv_heads; }
};

// The K and V roots of all layers and one view of each a stream, in one buffer of `type`.
class Cache {
 public:
  // `buffer` stays null when the allocation is refused.
  Cache(ggml_backend_buffer_type_t type, const Shape& shape);

  Shape shape;
  ggml_context_ptr context;
  ggml_backend_buffer_ptr buffer;
  std::vector<ggml_tensor*> k, v;
  std::vector<std::vector<ggml_tensor*>> k_streams, v_streams;  // [layer][stream]
};

// One batch: `num_queries` tokens in each of the streams [first_stream, first_stream + num_streams).
struct Batch {
  int num_queries = 1;
  int first_stream = 0;
  int num_streams = 1;
  int num_visible = 256;       // n_kv: cells that the attention reads
  std::vector<int64_t> cells;  // where each token goes, within its stream; [stream][query]
  std::vector<float> q, k, v;  // [layer][token][head][width]
  std::vector<float> mask;     // [stream][query][visible]; empty: causal by cell number
  bool with_mask = true;
  std::vector<float> sinks;  // [head] or empty
  float max_bias = 0, softcap = 0;
  bool mask_per_head = false;  // mask holds [stream][head][query][visible]
};

// Random rows and consecutive cells from `first_cell` on.
Batch MakeBatch(const Shape& shape, int num_queries, int first_cell, int first_stream, int num_streams, uint32_t seed);

// Runs graphs on a device through ggml's scheduler, as llama.cpp does.
class Runner {
 public:
  explicit Runner(ggml_backend_dev_t device, int num_threads = 2);

  // Stores the batch and attends in every layer; returns [layer][stream][query][head][width]. Empty when the graph cannot be allocated
  // or computed.
  std::vector<float> Attend(const Cache& cache, const Batch& batch);
  // In-place ROPE of all K rows by `shifts`, one a cell over all streams: llama.cpp's K-shift. False when it cannot be computed.
  bool Shift(const Cache& cache, const std::vector<int32_t>& shifts);
  // Any graph: `build` adds nodes and returns the tensors to expand; `fill` sets inputs after allocation; `read` takes results.
  bool Run(const std::function<void(ggml_context*, ggml_cgraph*)>& build, const std::function<void()>& fill,
           const std::function<void()>& read);

  int num_splits() const { return num_splits_; }
  // Makes the scheduler compute one node at a time, as tools with an eval callback do.
  void SetNodeByNode() { node_by_node_ = true; }

 private:
  std::vector<ggml_backend_ptr> backends_;
  ggml_backend_sched_ptr scheduler_;
  int num_splits_ = 0;
  bool node_by_node_ = false;
};

std::vector<uint8_t> GetBytes(const ggml_tensor* tensor);

// max |a - b| over max |b|.
double RelativeError(const std::vector<float>& a, const std::vector<float>& b);

// stderr of what `body` does.
std::string CaptureStderr(const std::function<void()>& body);

}  // namespace swivel::plugin_test

#endif  // SWIVEL_TESTS_PLUGIN_HARNESS_H_
