#include "plugin/set_rows.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "plugin/host.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

int64_t CellOf(const SetRowsTask& task, int64_t row) {
  const uint8_t* at = task.indices + static_cast<size_t>(row) * task.index_stride;
  if (task.wide_indices) {
    int64_t index;
    std::memcpy(&index, at, sizeof(index));
    return task.first_cell + index;
  }
  int32_t index;
  std::memcpy(&index, at, sizeof(index));
  return task.first_cell + index;
}

// Rows of a staged tensor, rounded to f16 as the host's own cache would round them.
void StoreRows(const SetRowsTask& task, int thread, int num_threads) {
  const auto values = static_cast<int64_t>(task.layer->RowBytes(task.side) / sizeof(uint16_t));
  for (int64_t i = thread; i < task.num_rows; i += num_threads) {
    const int64_t cell = CellOf(task, i);
    if (cell < 0 || cell >= task.total_cells) {
      task.bad_index->store(true, std::memory_order_relaxed);
      continue;
    }
    const auto* row = reinterpret_cast<const float*>(task.rows + static_cast<size_t>(i) * task.row_stride);
    host().ggml_fp32_to_fp16_row(row, reinterpret_cast<ggml_fp16_t*>(task.layer->Row(task.side, cell)), values);
  }
}

}  // namespace

bool DescribeSetRows(const ggml_tensor* set_rows, KvTensor* tensor, size_t offset, SetRowsTask* task) {
  const ggml_tensor* rows = set_rows->src[0];
  const ggml_tensor* indices = set_rows->src[1];
  const bool whole_rows = set_rows->ne[0] == tensor->row_values() && set_rows->nb[1] == tensor->row_bytes() &&
                          offset % tensor->row_bytes() == 0 && set_rows->ne[2] == 1 && set_rows->ne[3] == 1;
  const bool plain_source = rows->type == GGML_TYPE_F32 && rows->nb[0] == sizeof(float) && rows->ne[0] == tensor->row_values() &&
                            rows->ne[2] == 1 && rows->ne[3] == 1;
  const bool plain_indices = (indices->type == GGML_TYPE_I64 || indices->type == GGML_TYPE_I32) && indices->ne[0] == rows->ne[1];
  if (!whole_rows || !plain_source || !plain_indices) return false;

  task->store = tensor->row_store();
  task->layer = tensor->layer_cache();
  task->side = tensor->side();
  task->rows = static_cast<const uint8_t*>(rows->data);
  task->row_stride = rows->nb[1];
  task->indices = static_cast<const uint8_t*>(indices->data);
  task->index_stride = indices->nb[0];
  task->wide_indices = indices->type == GGML_TYPE_I64;
  task->num_rows = rows->ne[1];
  task->first_cell = static_cast<int64_t>(offset / tensor->row_bytes());
  task->total_cells = tensor->total_cells();
  return true;
}

int64_t MostRowsOfAStream(const SetRowsTask& task, int64_t num_cells) {
  std::vector<int64_t> rows(static_cast<size_t>(task.total_cells / num_cells));
  for (int64_t i = 0; i < task.num_rows; ++i) {
    const int64_t cell = CellOf(task, i);
    if (cell >= 0 && cell < task.total_cells) ++rows[static_cast<size_t>(cell / num_cells)];
  }
  return *std::max_element(rows.begin(), rows.end());
}

void MarkRows(const SetRowsTask& task, const int32_t* positions, KeyBasis* basis) {
  for (int64_t i = 0; i < task.num_rows; ++i) {
    const int64_t cell = CellOf(task, i);
    if (cell < 0 || cell >= task.total_cells) continue;  // the node itself says so
    if (basis != nullptr && task.layer->IsWritten(task.side, cell)) basis->ForgetRow(cell);
    task.layer->MarkWritten(task.side, cell, positions != nullptr ? positions[i] : LayerCache::kNoPosition);
  }
}

void RunSetRows(ggml_tensor*, int thread, int num_threads, void* userdata) {
  const auto& task = *static_cast<const SetRowsTask*>(userdata);
  if (task.layer != nullptr) return StoreRows(task, thread, num_threads);
  const StoreShape& shape = task.store->shape();
  const int64_t groups_per_stream = (shape.num_cells + kGroupTokens - 1) / kGroupTokens;
  for (int64_t i = 0; i < task.num_rows; ++i) {
    const int64_t cell = CellOf(task, i);
    if (cell < 0 || cell >= task.total_cells) {
      task.bad_index->store(true, std::memory_order_relaxed);
      continue;
    }
    // The bytes of a packed group mix tokens, so a (group, head) pair has one writer: the thread that its number selects.
    const int64_t group = cell / shape.num_cells * groups_per_stream + cell % shape.num_cells / kGroupTokens;
    const int64_t first = group * shape.num_heads % num_threads;
    const auto* row = reinterpret_cast<const float*>(task.rows + static_cast<size_t>(i) * task.row_stride);
    for (int64_t head = (thread - first + num_threads) % num_threads; head < shape.num_heads; head += num_threads) {
      task.store->EncodeCellHead(kernels(), cell, static_cast<int>(head), row + head * shape.width);
    }
  }
}

}  // namespace swivel::plugin
