// SET_ROWS on a cache of ours: the batch's new K or V rows are encoded into their cells, or stored exactly where they are packed later.
#ifndef SWIVEL_PLUGIN_SET_ROWS_H_
#define SWIVEL_PLUGIN_SET_ROWS_H_

#include <atomic>
#include <cstdint>

#include "ggml.h"
#include "plugin/kv_tensor.h"

namespace swivel::plugin {

struct SetRowsTask {
  GroupStore* store = nullptr;   // of a packed tensor
  LayerCache* layer = nullptr;   // of a staged one
  Side side = Side::kKey;
  const uint8_t* rows = nullptr;  // f32
  size_t row_stride = 0;
  const uint8_t* indices = nullptr;
  size_t index_stride = 0;
  bool wide_indices = true;  // int64_t, else int32_t
  int64_t num_rows = 0;
  int64_t first_cell = 0;  // of the view that is written
  int64_t total_cells = 0;
  std::atomic<bool>* bad_index = nullptr;
};

// Describes the node `set_rows`, whose destination starts at `offset` in the f16 image of `tensor`. False: a form that is not served
// here (the shadow path then is). Precondition: `tensor` is not plain.
bool DescribeSetRows(const ggml_tensor* set_rows, KvTensor* tensor, size_t offset, SetRowsTask* task);

// How many of the rows go to the stream (of `num_cells` cells) that gets most of them.
int64_t MostRowsOfAStream(const SetRowsTask& task, int64_t num_cells);

// Tells the layer of a staged tensor which cells the node is going to write; to be called before it runs. `positions`: of the rows' tokens,
// or null. `basis`: of keys; hears of rows that are overwritten; or null.
void MarkRows(const SetRowsTask& task, const int32_t* positions, KeyBasis* basis);

// One thread's share; a ggml_custom_op_t whose userdata is a SetRowsTask. An index outside the cache sets *bad_index and writes nothing.
void RunSetRows(ggml_tensor* target, int thread, int num_threads, void* task);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_SET_ROWS_H_
