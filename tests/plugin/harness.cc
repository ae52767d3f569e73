#include "harness.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

#include "ggml-cpu.h"

namespace swivel::plugin_test {
namespace {

constexpr size_t kMaxNodes = 2048;

ggml_context_ptr NewContext() {
  return ggml_context_ptr(ggml_init({ggml_tensor_overhead() * kMaxNodes + ggml_graph_overhead_custom(kMaxNodes, false), nullptr, true}));
}

std::vector<ggml_fp16_t> ToHalf(const std::vector<float>& values) {
  std::vector<ggml_fp16_t> half(values.size());
  ggml_fp32_to_fp16_row(values.data(), half.data(), static_cast<int64_t>(values.size()));
  return half;
}

// Every cell up to the query's own is visible.
std::vector<float> CausalMask(const Batch& batch) {
  std::vector<float> mask;
  for (const int64_t cell : batch.cells) {
    for (int i = 0; i < batch.num_visible; ++i) mask.push_back(i <= cell ? 0.0f : -INFINITY);
  }
  return mask;
}

template <class T>
void SetAll(ggml_tensor* tensor, const std::vector<T>& values) {
  ASSERT_EQ(ggml_nbytes(tensor), values.size() * sizeof(T)) << tensor->name;
  ggml_backend_tensor_set(tensor, values.data(), 0, ggml_nbytes(tensor));
}

ggml_tensor* NewInput(ggml_context* context, ggml_type type, int64_t a, int64_t b = 1, int64_t c = 1, int64_t d = 1) {
  ggml_tensor* tensor = ggml_new_tensor_4d(context, type, a, b, c, d);
  ggml_set_input(tensor);
  return tensor;
}

}  // namespace

ggml_backend_reg_t PluginRegistry() {
  static ggml_backend_reg_t registry = ggml_backend_load(SWIVEL_PLUGIN_FILE);
  EXPECT_NE(registry, nullptr) << "the plugin does not load";
  return registry;
}

ggml_backend_dev_t PluginDevice() { return ggml_backend_reg_dev_get(PluginRegistry(), 0); }
ggml_backend_buffer_type_t PluginBufferType() { return ggml_backend_dev_buffer_type(PluginDevice()); }

std::string SetKv(const std::string& spec) {
  auto* set = reinterpret_cast<const char* (*)(const char*)>(ggml_backend_reg_get_proc_address(PluginRegistry(), "swivel_set_kv"));
  const char* error = set(spec.c_str());
  return error == nullptr ? "" : error;
}

std::string Report() {
  auto* report = reinterpret_cast<size_t (*)(char*, size_t)>(ggml_backend_reg_get_proc_address(PluginRegistry(), "swivel_report"));
  std::string text(report(nullptr, 0) + 1, '\0');
  text.resize(std::min(report(text.data(), text.size()), text.size() - 1));
  return text;
}

Cache::Cache(ggml_backend_buffer_type_t type, const Shape& cache_shape) : shape(cache_shape), context(NewContext()) {
  const auto add = [&](const char* prefix, int layer, std::vector<ggml_tensor*>* roots, std::vector<std::vector<ggml_tensor*>>* streams) {
    ggml_tensor* root = ggml_new_tensor_3d(context.get(), shape.type, shape.row(), shape.num_cells, shape.num_streams);
    ggml_format_name(root, "%s%d", prefix, layer);
    roots->push_back(root);
    std::vector<ggml_tensor*> views;
    for (int s = 0; s < shape.num_streams; ++s) {
      views.push_back(ggml_view_2d(context.get(), root, shape.row(), shape.num_cells, root->nb[1], static_cast<size_t>(s) * root->nb[2]));
    }
    streams->push_back(views);
  };
  for (int layer = 0; layer < shape.num_layers; ++layer) {
    add("cache_k_l", layer, &k, &k_streams);
    add("cache_v_l", layer, &v, &v_streams);
  }
  buffer.reset(ggml_backend_alloc_ctx_tensors_from_buft(context.get(), type));
  if (buffer != nullptr) ggml_backend_buffer_clear(buffer.get(), 0);
}

Batch MakeBatch(const Shape& shape, int num_queries, int first_cell, int first_stream, int num_streams, uint32_t seed) {
  Batch batch;
  batch.num_queries = num_queries;
  batch.first_stream = first_stream;
  batch.num_streams = num_streams;
  batch.num_visible = shape.num_cells;
  for (int s = 0; s < num_streams; ++s) {
    for (int i = 0; i < num_queries; ++i) batch.cells.push_back(first_cell + i);
  }
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  const size_t tokens = static_cast<size_t>(shape.num_layers) * static_cast<size_t>(num_streams) * static_cast<size_t>(num_queries);
  const auto fill = [&](std::vector<float>* values, int heads) {
    values->resize(tokens * static_cast<size_t>(heads) * static_cast<size_t>(shape.width));
    for (float& value : *values) value = normal(random);
  };
  fill(&batch.q, shape.num_heads);
  fill(&batch.k, shape.num_kv_heads);
  fill(&batch.v, shape.num_kv_heads);
  return batch;
}

Runner::Runner(ggml_backend_dev_t device, int num_threads) {
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (device != cpu) backends_.emplace_back(ggml_backend_dev_init(device, nullptr));
  backends_.emplace_back(ggml_backend_dev_init(cpu, nullptr));
  std::vector<ggml_backend_t> all;
  for (const auto& backend : backends_) {
    ggml_backend_reg_t registry = ggml_backend_dev_backend_reg(ggml_backend_get_device(backend.get()));
    auto* set = reinterpret_cast<ggml_backend_set_n_threads_t>(ggml_backend_reg_get_proc_address(registry, "ggml_backend_set_n_threads"));
    set(backend.get(), num_threads);
    all.push_back(backend.get());
  }
  scheduler_.reset(ggml_backend_sched_new(all.data(), nullptr, static_cast<int>(all.size()), kMaxNodes, false, true));
}

bool Runner::Run(const std::function<void(ggml_context*, ggml_cgraph*)>& build, const std::function<void()>& fill,
                 const std::function<void()>& read) {
  ggml_context_ptr context = NewContext();
  ggml_cgraph* graph = ggml_new_graph_custom(context.get(), kMaxNodes, false);
  build(context.get(), graph);
  ggml_backend_sched_reset(scheduler_.get());
  ggml_backend_sched_set_eval_callback(
      scheduler_.get(),
      node_by_node_ ? [](ggml_tensor*, bool, void*) { return true; } : static_cast<ggml_backend_sched_eval_callback>(nullptr), nullptr);
  if (!ggml_backend_sched_alloc_graph(scheduler_.get(), graph)) return false;
  num_splits_ = ggml_backend_sched_get_n_splits(scheduler_.get());
  fill();
  if (ggml_backend_sched_graph_compute(scheduler_.get(), graph) != GGML_STATUS_SUCCESS) return false;
  read();
  return true;
}

std::vector<float> Runner::Attend(const Cache& cache, const Batch& batch) {
  const Shape& shape = cache.shape;
  const int64_t queries = batch.num_queries, streams = batch.num_streams, tokens = queries * streams;
  std::vector<ggml_tensor*> q, k, v, out;
  ggml_tensor *indices = nullptr, *mask = nullptr, *sinks = nullptr;

  const auto build = [&](ggml_context* context, ggml_cgraph* graph) {
    indices = NewInput(context, GGML_TYPE_I64, tokens);
    if (batch.with_mask)
      mask = NewInput(context, GGML_TYPE_F16, batch.num_visible, queries, batch.mask_per_head ? shape.num_heads : 1, streams);
    if (!batch.sinks.empty()) sinks = NewInput(context, GGML_TYPE_F32, shape.num_heads);
    const auto store = [&](ggml_tensor* root, ggml_tensor* rows) {
      if (shape.num_streams > 1)
        root = ggml_reshape_2d(context, root, shape.row(), static_cast<int64_t>(shape.num_cells) * shape.num_streams);
      ggml_build_forward_expand(graph, ggml_set_rows(context, root, rows, indices));
    };
    const auto view = [&](ggml_tensor* root) {
      const size_t head = ggml_row_size(root->type, shape.width);
      ggml_tensor* cells = ggml_view_4d(context, root, shape.width, shape.num_kv_heads, batch.num_visible, streams, head, root->nb[1],
                                        root->nb[2], static_cast<size_t>(batch.first_stream) * root->nb[2]);
      return ggml_permute(context, cells, 0, 2, 1, 3);
    };
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      const auto l = static_cast<size_t>(layer);
      q.push_back(NewInput(context, GGML_TYPE_F32, shape.width, shape.num_heads, queries, streams));
      k.push_back(NewInput(context, GGML_TYPE_F32, shape.row(), tokens));
      v.push_back(NewInput(context, GGML_TYPE_F32, shape.row(), tokens));
      store(cache.k[l], k[l]);
      store(cache.v[l], v[l]);
      const float scale = 1.0f / std::sqrt(static_cast<float>(shape.width)) / (batch.softcap > 0 ? batch.softcap : 1.0f);
      ggml_tensor* attention = ggml_flash_attn_ext(context, ggml_permute(context, q[l], 0, 2, 1, 3), view(cache.k[l]), view(cache.v[l]),
                                                   mask, batch.softcap > 0 ? scale * batch.softcap : scale, batch.max_bias, batch.softcap);
      if (sinks != nullptr) ggml_flash_attn_ext_add_sinks(attention, sinks);
      ggml_set_output(attention);
      out.push_back(attention);
      ggml_build_forward_expand(graph, attention);
    }
  };
  const auto part = [&](const std::vector<float>& all, int layer) {
    const size_t size = all.size() / static_cast<size_t>(shape.num_layers);
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(size * static_cast<size_t>(layer));
    return std::vector<float>(begin, begin + static_cast<std::ptrdiff_t>(size));
  };
  const auto fill = [&] {
    std::vector<int64_t> cells;
    for (int64_t i = 0; i < tokens; ++i) {
      cells.push_back((batch.first_stream + i / queries) * shape.num_cells + batch.cells[static_cast<size_t>(i)]);
    }
    SetAll(indices, cells);
    if (mask != nullptr) SetAll(mask, ToHalf(batch.mask.empty() ? CausalMask(batch) : batch.mask));
    if (sinks != nullptr) SetAll(sinks, batch.sinks);
    for (int layer = 0; layer < shape.num_layers; ++layer) {
      SetAll(q[static_cast<size_t>(layer)], part(batch.q, layer));
      SetAll(k[static_cast<size_t>(layer)], part(batch.k, layer));
      SetAll(v[static_cast<size_t>(layer)], part(batch.v, layer));
    }
  };
  std::vector<float> result;
  const auto read = [&] {
    for (ggml_tensor* attention : out) {
      std::vector<float> values(static_cast<size_t>(ggml_nelements(attention)));
      ggml_backend_tensor_get(attention, values.data(), 0, ggml_nbytes(attention));
      result.insert(result.end(), values.begin(), values.end());
    }
  };
  return Run(build, fill, read) ? result : std::vector<float>();
}

bool Runner::Shift(const Cache& cache, const std::vector<int32_t>& shifts) {
  const Shape& shape = cache.shape;
  ggml_tensor* positions = nullptr;
  const auto build = [&](ggml_context* context, ggml_cgraph* graph) {
    positions = NewInput(context, GGML_TYPE_I32, static_cast<int64_t>(shifts.size()));
    for (ggml_tensor* root : cache.k) {
      ggml_tensor* rows =
          ggml_view_3d(context, root, shape.width, shape.num_kv_heads, static_cast<int64_t>(shape.num_cells) * shape.num_streams,
                       ggml_row_size(root->type, shape.width), root->nb[1], 0);
      ggml_build_forward_expand(
          graph, ggml_rope_ext_inplace(context, rows, positions, nullptr, shape.width, 0, 0, 10000.0f, 1.0f, 0.0f, 1.0f, 0.0f, 0.0f));
    }
  };
  return Run(
      build, [&] { SetAll(positions, shifts); }, [] {});
}

std::vector<uint8_t> GetBytes(const ggml_tensor* tensor) {
  std::vector<uint8_t> bytes(ggml_nbytes(tensor));
  ggml_backend_tensor_get(tensor, bytes.data(), 0, bytes.size());
  return bytes;
}

double RelativeError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double difference = 0, largest = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    if (std::isnan(a[i]) != std::isnan(b[i])) return INFINITY;
    if (std::isnan(a[i])) continue;
    difference = std::max(difference, std::abs(static_cast<double>(a[i]) - b[i]));
    largest = std::max(largest, std::abs(static_cast<double>(b[i])));
  }
  return difference / largest;
}

std::string CaptureStderr(const std::function<void()>& body) {
  testing::internal::CaptureStderr();
  body();
  return testing::internal::GetCapturedStderr();
}

}  // namespace swivel::plugin_test
