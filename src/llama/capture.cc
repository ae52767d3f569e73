#include "llama/capture.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>

#include "ggml-backend.h"
#include "llama.h"
#include "llama/log.h"

namespace swivel {
namespace {

constexpr int kMicroBatch = 512;

struct CacheName {
  char kind;
  int layer;
};

// "cache_k_l12" and "cache_v_l12". Second caches of a layer (cache_idx_k_l3, recurrent state) are no attention of ours.
std::optional<CacheName> ParseCacheName(std::string_view name) {
  for (const char kind : {'k', 'v'}) {
    const std::string prefix = fmt::format("cache_{}_l", kind);
    if (!name.starts_with(prefix)) continue;
    const std::string_view digits = name.substr(prefix.size());
    int layer = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), layer);
    if (error == std::errc() && end == digits.data() + digits.size() && !digits.empty()) return CacheName{kind, layer};
  }
  return {};
}

// What the callback of the graph sees and keeps.
class Catcher {
 public:
  Catcher(size_t num_tokens, const CaptureOptions& options) : num_tokens_(num_tokens), options_(options) {}

  // llama.cpp asks for each node whether its result is wanted, and calls again once that is there. The operands of the node are then still
  // in place: nothing that reads them has been left out.
  static bool OnNode(ggml_tensor* node, bool ask, void* self) {
    auto& catcher = *static_cast<Catcher*>(self);
    const ggml_tensor* root = catcher.Root(node);
    if (root == nullptr || !ParseCacheName(root->name)) return !ask;
    if (ask) return true;
    catcher.Catch(node, root);
    return true;  // a failure is kept; llama.cpp would go on with half of a graph
  }

  void BeginBatch(size_t first_token) { first_token_ = first_token; }

  // What went wrong, known after the first batch.
  Status Check() const {
    if (!status_.ok()) return status_;
    if (seen_layers_.empty()) return Status::Unsupported("this model keeps no KV cache: it has no keys and values to capture");
    for (const int layer : options_.layers) {
      if (seen_layers_.contains(layer)) continue;
      return Status::Invalid(fmt::format("layer {} has no cache of its own; those that have: {}", layer, fmt::join(seen_layers_, ", ")));
    }
    return {};
  }

  std::vector<CapturedRows> Take() {
    std::vector<CapturedRows> result;
    for (auto& [key, rows] : kept_) result.push_back(std::move(rows));
    return result;
  }

 private:
  static const ggml_tensor* Root(const ggml_tensor* node) {
    if (node->op == GGML_OP_SET_ROWS) return node->view_src;
    if (node->op == GGML_OP_FLASH_ATTN_EXT) return node->src[1]->view_src;
    return nullptr;
  }

  void Catch(const ggml_tensor* node, const ggml_tensor* root) {
    if (!status_.ok()) return;
    const CacheName name = *ParseCacheName(root->name);
    seen_layers_.insert(name.layer);
    if (!options_.layers.empty() && std::find(options_.layers.begin(), options_.layers.end(), name.layer) == options_.layers.end()) return;
    if (name.kind == 'v' && !options_.values && node->op == GGML_OP_SET_ROWS) return;
    // Models with a second cache under the same names: the first one is attention's.
    const auto [first, is_new] = roots_.try_emplace({name.layer, name.kind}, root);
    if (first->second != root) return;
    if (node->op == GGML_OP_SET_ROWS) {
      // Rows of all heads; how wide a head is only attention tells, which comes after both of a layer's writes.
      pending_[{name.layer, name.kind}] = ReadRows(node->src[0]);
      return;
    }
    const ggml_tensor* k = node->src[1];
    const ggml_tensor* v = node->src[2];
    float logit_scale = 0;
    std::memcpy(&logit_scale, node->op_params, sizeof logit_scale);
    Keep({name.layer, 'k'}, static_cast<int>(k->ne[0]), static_cast<int>(k->ne[2]), 1, logit_scale);
    Keep({name.layer, 'v'}, static_cast<int>(v->ne[0]), static_cast<int>(v->ne[2]), 1, logit_scale);
    if (options_.queries && attended_.insert({first_token_, name.layer}).second) {
      const ggml_tensor* q = node->src[0];
      pending_[{name.layer, 'q'}] = ReadHeads(q);
      const int num_heads = static_cast<int>(q->ne[2]);
      Keep({name.layer, 'q'}, static_cast<int>(q->ne[0]), num_heads, std::max(1, num_heads / static_cast<int>(k->ne[2])), logit_scale);
    }
  }

  // [token][all heads] of a matrix whose rows may lie apart.
  static std::vector<float> ReadRows(const ggml_tensor* rows) {
    std::vector<float> values(static_cast<size_t>(rows->ne[0] * rows->ne[1]));
    for (int64_t i = 0; i < rows->ne[1]; ++i) {
      ggml_backend_tensor_get(rows, &values[static_cast<size_t>(i * rows->ne[0])], static_cast<size_t>(i) * rows->nb[1],
                              static_cast<size_t>(rows->ne[0]) * sizeof(float));
    }
    return values;
  }

  // The same of a permuted tensor [width, token, head].
  static std::vector<float> ReadHeads(const ggml_tensor* q) {
    const int64_t width = q->ne[0], tokens = q->ne[1], heads = q->ne[2];
    std::vector<float> values(static_cast<size_t>(width * tokens * heads));
    for (int64_t token = 0; token < tokens; ++token) {
      for (int64_t head = 0; head < heads; ++head) {
        ggml_backend_tensor_get(q, &values[static_cast<size_t>((token * heads + head) * width)],
                                static_cast<size_t>(token) * q->nb[1] + static_cast<size_t>(head) * q->nb[2],
                                static_cast<size_t>(width) * sizeof(float));
      }
    }
    return values;
  }

  using Key = std::pair<int, char>;

  // Sorts the pending rows of a layer by heads; there are none where another layer's cache is read, and no V where it is a part of K.
  void Keep(Key key, int width, int num_heads, int heads_a_kv_head, float logit_scale) {
    const auto pending = pending_.find(key);
    if (pending == pending_.end() || !status_.ok()) return;
    const std::vector<float> values = std::move(pending->second);
    pending_.erase(pending);
    const size_t row_values = static_cast<size_t>(width) * static_cast<size_t>(num_heads);
    const size_t tokens = values.size() / row_values;
    if (tokens * row_values != values.size() || first_token_ + tokens > num_tokens_) {
      status_ = Status::Internal(
          fmt::format("layer {}: {} values of {} are no rows of {} heads of {}", key.first, values.size(), key.second, num_heads, width));
      return;
    }
    CapturedRows& kept = kept_[{key.first, key.second == 'k' ? 0 : key.second == 'v' ? 1 : 2}];
    if (kept.rows.empty() && !Begin(key, width, num_heads, heads_a_kv_head, logit_scale, &kept)) return;
    const auto columns = static_cast<size_t>(width);
    for (size_t i = 0; i < kept.heads.size(); ++i) {
      for (size_t token = 0; token < tokens; ++token) {
        const float* from = &values[token * row_values + static_cast<size_t>(kept.heads[i]) * columns];
        std::copy(from, from + columns, &kept.rows[(i * num_tokens_ + first_token_ + token) * columns]);
      }
    }
  }

  bool Begin(Key key, int width, int num_heads, int heads_a_kv_head, float logit_scale, CapturedRows* kept) {
    kept->kind = key.second;
    kept->layer = key.first;
    kept->width = width;
    kept->num_heads = num_heads;
    kept->logit_scale = logit_scale;
    const int num_kv_heads = num_heads / heads_a_kv_head;
    for (int head = 0; head < num_heads; ++head) {
      const int kv_head = head / heads_a_kv_head;
      if (options_.heads.empty() || std::find(options_.heads.begin(), options_.heads.end(), kv_head) != options_.heads.end()) {
        kept->heads.push_back(head);
      }
    }
    for (const int head : options_.heads) {
      if (head < num_kv_heads) continue;
      status_ = Status::Invalid(fmt::format("layer {} has the KV heads 0 to {}, no head {}", key.first, num_kv_heads - 1, head));
      return false;
    }
    const size_t values = kept->heads.size() * num_tokens_ * static_cast<size_t>(width);
    num_bytes_ += static_cast<int64_t>(values * sizeof(float));
    if (num_bytes_ > options_.most_bytes) {
      status_ = Status::OutOfMemory(
          fmt::format("what is to be captured does not fit in {:.0f} MiB; choose fewer layers or heads, or a shorter text",
                      static_cast<double>(options_.most_bytes) / (1 << 20)));
      return false;
    }
    kept->rows.resize(values);
    return true;
  }

  size_t num_tokens_;
  const CaptureOptions& options_;
  size_t first_token_ = 0;
  Status status_;
  int64_t num_bytes_ = 0;
  std::set<int> seen_layers_;
  std::map<Key, const ggml_tensor*> roots_;
  std::map<Key, std::vector<float>> pending_;
  std::set<std::pair<size_t, int>> attended_;  // (first token of the batch, layer): later readers of the same cache are other layers
  std::map<std::pair<int, int>, CapturedRows> kept_;
};

}  // namespace

StatusOr<std::vector<CapturedRows>> CaptureAttention(const Model& model, std::span<const Token> tokens, const CaptureOptions& options,
                                                     const std::function<void(size_t)>& progress) {
  if (tokens.empty()) return Status::Invalid("the text has no tokens");
  Catcher catcher(tokens.size(), options);
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(tokens.size());
  params.n_batch = params.n_ubatch = kMicroBatch;
  params.n_outputs_max = 1;
  params.n_outputs_max_per_seq = 0;
  params.n_threads = params.n_threads_batch = options.threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;  // V in rows
  params.type_k = params.type_v = GGML_TYPE_F16;           // unrotated
  params.cb_eval = &Catcher::OnNode;
  params.cb_eval_user_data = &catcher;
  const LlamaLogMark mark;
  llama_context* context = llama_init_from_model(model.get(), params);
  if (context == nullptr) {
    return Status::OutOfMemory(fmt::format("no context of {} tokens could be made: {}", tokens.size(), mark.Errors()));
  }
  Status status;
  if (llama_get_memory(context) == nullptr) {
    status = Status::Unsupported(fmt::format("this model ({}) keeps no KV cache", model.description()));
  }
  for (size_t done = 0; done < tokens.size() && status.ok();) {
    std::vector<Token> batch(tokens.begin() + static_cast<std::ptrdiff_t>(done),
                             tokens.begin() + static_cast<std::ptrdiff_t>(std::min(tokens.size(), done + kMicroBatch)));
    catcher.BeginBatch(done);
    const int result = llama_decode(context, llama_batch_get_one(batch.data(), static_cast<int32_t>(batch.size())));
    if (result != 0) {
      status = Status::Internal(
          fmt::format("llama.cpp could not decode {} tokens at position {} ({}): {}", batch.size(), done, result, mark.Errors()));
    } else {
      status = catcher.Check();
    }
    done += batch.size();
    progress(done);
  }
  llama_free(context);
  if (!status.ok()) return status;
  return catcher.Take();
}

}  // namespace swivel
