#include "llama/stock_attention.h"

#include <fmt/format.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "ggml-alloc.h"
#include "ggml-backend.h"
#include "ggml-cpu.h"
#include "ggml.h"
#include "llama/model.h"

namespace swivel {
namespace {

// libggml-cpu may be a module that is loaded at run time, so its functions are asked for by name as llama.cpp does.
template <class Function>
bool Find(ggml_backend_reg_t reg, const char* name, Function* function) {
  *function = reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(reg, name));
  return *function != nullptr;
}

}  // namespace

struct StockAttention::Ggml {
  ~Ggml() {
    ggml_backend_free(backend);
    if (pool != nullptr) free_pool(pool);
    ggml_backend_buffer_free(buffer);
    ggml_free(context);
  }

  AttentionShape shape;
  ggml_type type = GGML_TYPE_F16;
  ggml_backend_t backend = nullptr;
  ggml_backend_buffer_t buffer = nullptr;
  ggml_context* context = nullptr;
  ggml_threadpool_t pool = nullptr;
  decltype(&ggml_threadpool_free) free_pool = nullptr;
  decltype(&ggml_backend_cpu_set_threadpool) set_pool = nullptr;
  ggml_tensor* k = nullptr;  // [row, cells, layers], as llama.cpp's with a stream for each layer
  ggml_tensor* v = nullptr;
  ggml_tensor* q = nullptr;
  ggml_tensor* mask = nullptr;
  std::vector<ggml_tensor*> outputs;
  std::vector<ggml_cgraph*> graphs;

  Status StartThreads(ggml_backend_dev_t device, int threads);
  void BuildGraphs();
  ggml_tensor* View(ggml_tensor* cache, int layer) const;
};

Status StockAttention::Ggml::StartThreads(ggml_backend_dev_t device, int threads) {
  ggml_backend_reg_t reg = ggml_backend_dev_backend_reg(device);
  decltype(&ggml_threadpool_new) new_pool = nullptr;
  ggml_backend_set_n_threads_t set_threads = nullptr;
  if (!Find(reg, "ggml_threadpool_new", &new_pool) || !Find(reg, "ggml_threadpool_free", &free_pool) ||
      !Find(reg, "ggml_backend_cpu_set_threadpool", &set_pool) || !Find(reg, "ggml_backend_set_n_threads", &set_threads)) {
    return Status::Unsupported("ggml's CPU backend gives no access to its threads");
  }
  ggml_threadpool_params params = ggml_threadpool_params_default(threads);  // what llama.cpp's programs use
  params.paused = true;
  pool = new_pool(&params);
  if (pool == nullptr) return Status::Internal(fmt::format("ggml cannot start {} threads", threads));
  set_threads(backend, threads);
  return {};
}

// llama_kv_cache::get_k, then the permutation of build_attn_mha.
ggml_tensor* StockAttention::Ggml::View(ggml_tensor* cache, int layer) const {
  ggml_tensor* view =
      ggml_view_4d(context, cache, shape.head_width, shape.num_kv_heads, shape.num_cells, 1, ggml_row_size(type, shape.head_width),
                   cache->nb[1], cache->nb[2], cache->nb[2] * static_cast<size_t>(layer));
  return ggml_permute(context, view, 0, 2, 1, 3);
}

void StockAttention::Ggml::BuildGraphs() {
  const int64_t row = static_cast<int64_t>(shape.RowValues());
  k = ggml_new_tensor_3d(context, type, row, shape.num_cells, shape.num_layers);
  v = ggml_new_tensor_3d(context, type, row, shape.num_cells, shape.num_layers);
  q = ggml_new_tensor_3d(context, GGML_TYPE_F32, shape.head_width, shape.num_heads, shape.num_queries);
  mask = ggml_new_tensor_2d(context, GGML_TYPE_F16, shape.num_cells, shape.num_queries);
  const float scale = 1.0f / std::sqrt(static_cast<float>(shape.head_width));
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    ggml_tensor* out =
        ggml_flash_attn_ext(context, ggml_permute(context, q, 0, 2, 1, 3), View(k, layer), View(v, layer), mask, scale, 0.0f, 0.0f);
    ggml_cgraph* graph = ggml_new_graph_custom(context, 16, /*grads=*/false);
    ggml_build_forward_expand(graph, out);
    outputs.push_back(out);
    graphs.push_back(graph);
  }
}

StockAttention::StockAttention() : ggml_(new Ggml) {}
StockAttention::~StockAttention() = default;

StatusOr<std::unique_ptr<StockAttention>> StockAttention::Create(int ggml_type, const AttentionShape& shape, int threads) {
  InitLlama();
  const enum ggml_type type = static_cast<enum ggml_type>(ggml_type);
  if (shape.head_width % ggml_blck_size(type) != 0) {
    return Status::Unsupported(fmt::format("llama.cpp's {} needs a head width that is a multiple of {}; {} is not", ggml_type_name(type),
                                           ggml_blck_size(type), shape.head_width));
  }
  std::unique_ptr<StockAttention> attention(new StockAttention);
  Ggml& ggml = *attention->ggml_;
  ggml.shape = shape;
  ggml.type = type;
  ggml_backend_dev_t device = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device != nullptr) ggml.backend = ggml_backend_dev_init(device, nullptr);
  if (ggml.backend == nullptr) return Status::Unsupported("this llama.cpp has no CPU backend");
  if (Status status = ggml.StartThreads(device, threads); !status.ok()) return status;

  const size_t layers = static_cast<size_t>(shape.num_layers);
  const ggml_init_params params = {(layers * 8 + 8) * ggml_tensor_overhead() + layers * ggml_graph_overhead_custom(16, false), nullptr,
                                   /*no_alloc=*/true};
  ggml.context = ggml_init(params);
  if (ggml.context == nullptr) return Status::OutOfMemory("ggml cannot allocate its tensors");
  ggml.BuildGraphs();
  if (!ggml_backend_supports_op(ggml.backend, ggml.outputs[0])) {
    return Status::Unsupported(fmt::format("ggml's CPU backend has no flash attention on {}", ggml_type_name(type)));
  }
  ggml.buffer = ggml_backend_alloc_ctx_tensors(ggml.context, ggml.backend);
  if (ggml.buffer == nullptr) {
    return Status::OutOfMemory(
        fmt::format("no memory for {} caches of {} cells in {}", shape.num_layers, shape.num_cells, ggml_type_name(type)));
  }
  return attention;
}

void StockAttention::SetCell(int64_t cell, const float* k, const float* v) {
  const int64_t row = static_cast<int64_t>(ggml_->shape.RowValues());
  for (auto [tensor, values] : {std::pair{ggml_->k, k}, std::pair{ggml_->v, v}}) {
    char* first = static_cast<char*>(tensor->data) + static_cast<size_t>(cell) * tensor->nb[1];
    ggml_quantize_chunk(ggml_->type, values, first, 0, 1, row, nullptr);
    for (int layer = 1; layer < ggml_->shape.num_layers; ++layer) {
      std::memcpy(first + static_cast<size_t>(layer) * tensor->nb[2], first, tensor->nb[1]);
    }
  }
}

void StockAttention::SetQueries(std::span<const float> q, std::span<const uint16_t> mask) {
  ggml_backend_tensor_set(ggml_->q, q.data(), 0, q.size_bytes());
  ggml_backend_tensor_set(ggml_->mask, mask.data(), 0, mask.size_bytes());
}

Status StockAttention::Run(int layer) {
  ggml_->set_pool(ggml_->backend, ggml_->pool);
  const ggml_status status = ggml_backend_graph_compute(ggml_->backend, ggml_->graphs[static_cast<size_t>(layer)]);
  return status == GGML_STATUS_SUCCESS ? Status()
                                       : Status::Internal(fmt::format("ggml's attention failed: {}", ggml_status_to_string(status)));
}

// Taking a pool away from the backend pauses it; the function that pauses is not among those that can be asked for.
void StockAttention::Park() { ggml_->set_pool(ggml_->backend, nullptr); }

std::span<const float> StockAttention::Output(int layer) const {
  return {static_cast<const float*>(ggml_->outputs[static_cast<size_t>(layer)]->data), ggml_->shape.QueryValues()};
}

size_t StockAttention::CacheBytes() const { return 2 * ggml_->k->nb[2]; }

}  // namespace swivel
