#include "llama/context.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "cache/spec.h"
#include "ggml.h"
#include "llama.h"
#include "llama/log.h"
#include "llama/plugin.h"

namespace swivel {

namespace {

std::set<int64_t> PluginContexts() {
  std::set<int64_t> numbers;
  StatusOr<Plugin*> plugin = Plugin::Get();
  if (!plugin.ok()) return numbers;
  for (const CacheReport& report : (*plugin)->Report()) numbers.insert(report.context);
  return numbers;
}

}  // namespace

StatusOr<std::unique_ptr<Context>> Context::Create(const Model& model, const CacheChoice& cache, const ContextOptions& options) {
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(options.context_tokens);
  params.n_batch = static_cast<uint32_t>(options.batch_tokens);
  params.n_ubatch = static_cast<uint32_t>(options.micro_batch_tokens);
  // The logits of a whole batch are the largest buffer of a context; reserve what will be asked for.
  params.n_outputs_max = static_cast<uint32_t>(options.max_outputs);
  params.n_outputs_max_per_seq = 0;
  params.n_threads = params.n_threads_batch = options.threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.cb_eval = options.hook.callback;
  params.cb_eval_user_data = options.hook.data;
  params.type_k = params.type_v = GGML_TYPE_F16;  // what the plugin recognises as its own
  std::unique_ptr<Context> context(new Context);
  context->model_ = &model;
  context->cache_ = cache;
  std::set<int64_t> known;
  if (cache.stock) {
    params.type_k = params.type_v = static_cast<ggml_type>(cache.ggml_type);
  } else {
    StatusOr<Plugin*> plugin = Plugin::Get();
    if (!plugin.ok()) return plugin.status();
    if (Status status = (*plugin)->SetSpec(cache.spec); !status.ok()) return status;
    known = PluginContexts();
  }
  const LlamaLogMark mark;
  context->context_ = llama_init_from_model(model.get(), params);
  if (context->context_ == nullptr) {
    return Status::Unsupported(
        fmt::format("no context of {} tokens with the cache {} for this model: {}", options.context_tokens, cache.name, mark.Errors()));
  }
  if (llama_get_memory(context->context_) == nullptr) {
    return Status::Unsupported(fmt::format("this model ({}) keeps no KV cache", model.description()));
  }
  if (!cache.stock) {
    for (int64_t number : PluginContexts()) {
      if (!known.contains(number)) context->plugin_contexts_.insert(number);
    }
  }
  return context;
}

std::optional<int64_t> FullBytes(const CacheChoice& cache, const CacheUse& use, const CacheLayout& layout) {
  if (cache.stock || !use.bits_per_value) return use.cache_bytes;
  const StatusOr<CacheSpec> spec = ParseSpec(cache.spec);
  if (!spec.ok() || layout.tensors.empty()) return std::nullopt;
  if (!spec.value().Staged()) return use.cache_bytes;
  double bits = 0;
  for (const CacheLayout::Tensor& tensor : layout.tensors) {
    const int64_t exact = spec.value().ExactRows(tensor.num_rows);
    bits += static_cast<double>(tensor.row_values) *
            (16.0 * static_cast<double>(exact) + *use.bits_per_value * static_cast<double>(tensor.num_rows - exact));
  }
  return static_cast<int64_t>(bits / 8);
}

Context::~Context() {
  if (context_ != nullptr) llama_free(context_);
}

void Context::Clear() { llama_memory_clear(llama_get_memory(context_), /*data=*/true); }

bool Context::Truncate(int position) { return llama_memory_seq_rm(llama_get_memory(context_), 0, position, -1); }

Status Context::Decode(std::span<const Token> tokens, int first_position, int num_outputs) {
  const int count = static_cast<int>(tokens.size());
  llama_batch batch = llama_batch_init(count, 0, 1);
  batch.n_tokens = count;
  for (int i = 0; i < count; ++i) {
    batch.token[i] = tokens[static_cast<size_t>(i)];
    batch.pos[i] = first_position + i;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = 0;
    batch.logits[i] = i >= count - num_outputs ? 1 : 0;
  }
  const LlamaLogMark mark;
  const int result = llama_decode(context_, batch);
  llama_batch_free(batch);
  if (result == 0) return {};
  return Status::Internal(fmt::format("llama.cpp could not decode {} tokens at position {} with the cache {} ({}): {}", count,
                                      first_position, cache_.name, result, mark.Errors()));
}

int Context::capacity_tokens() const { return static_cast<int>(llama_n_ctx(context_)); }

const float* Context::Logits(int row) const {
  return llama_get_logits(context_) + static_cast<size_t>(row) * static_cast<size_t>(model_->vocab_size());
}

std::map<std::string, int64_t> Context::Counters() const {
  std::map<std::string, int64_t> counters;
  if (cache_.stock) return counters;
  StatusOr<Plugin*> plugin = Plugin::Get();
  if (!plugin.ok()) return counters;
  for (const CacheReport& report : (*plugin)->Report()) {
    if (!plugin_contexts_.contains(report.context)) continue;
    for (const auto& [name, count] : report.counters) counters[name] += count;
  }
  return counters;
}

CacheUse Context::Use(const CacheLayout& layout) const {
  CacheUse use;
  if (!layout.tensors.empty()) use.f16_bytes = layout.BytesAs(GGML_TYPE_F16);
  if (cache_.stock) {
    if (use.f16_bytes) use.cache_bytes = layout.BytesAs(cache_.ggml_type);
  } else if (StatusOr<Plugin*> plugin = Plugin::Get(); plugin.ok()) {
    int64_t packed = 0, resident = 0, f16 = 0;
    bool all_packed = !plugin_contexts_.empty();
    for (const CacheReport& report : (*plugin)->Report()) {
      if (!plugin_contexts_.contains(report.context)) continue;
      packed += report.packed_bytes.value_or(0);
      resident += report.resident_bytes.value_or(0);
      f16 += report.f16_bytes.value_or(0);
      all_packed &= report.packed_bytes.has_value() && report.packed_tensors == report.tensors;
    }
    // Plain tensors among them would make the sum too small; better no figure than that one.
    if (all_packed) {
      use.cache_bytes = packed;
      use.resident_bytes = resident;
    }
    if (!use.f16_bytes && f16 > 0) use.f16_bytes = f16;
  }
  // An f16 value is 16 bits, so the ratio of sizes counts bits whatever the shapes are.
  if (use.cache_bytes && use.f16_bytes) {
    use.bits_per_value = 16.0 * static_cast<double>(*use.cache_bytes) / static_cast<double>(*use.f16_bytes);
  }
  return use;
}

}  // namespace swivel
