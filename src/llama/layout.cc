#include "llama/layout.h"

#include <algorithm>
#include <cctype>
#include <set>
#include <string>
#include <string_view>

#include <fmt/format.h>

#include "ggml-backend.h"
#include "llama.h"
#include "llama/log.h"

namespace swivel {
namespace {

// cache_k_l0, cache_v_l11, cache_idx_k_l3. Recurrent state is cache_r_l… and cache_s_l….
bool IsCacheName(std::string_view name) {
  constexpr std::string_view kPrefix = "cache_";
  if (name.substr(0, kPrefix.size()) != kPrefix) return false;
  const size_t layer = name.rfind("_l");
  if (layer == std::string_view::npos || layer < kPrefix.size() || layer + 2 == name.size()) return false;
  if (!std::all_of(name.begin() + static_cast<long>(layer) + 2, name.end(), [](unsigned char c) { return std::isdigit(c) != 0; })) {
    return false;
  }
  return name[layer - 1] == 'k' || name[layer - 1] == 'v';
}

struct Found {
  std::set<const ggml_tensor*> seen;
  CacheLayout layout;
};

// Called for every node before the graph runs; answers "I do not need this value", so that nothing is computed differently.
bool OnNode(ggml_tensor* node, bool ask, void* user_data) {
  auto* found = static_cast<Found*>(user_data);
  if (!ask) return true;
  const ggml_tensor* root = node->view_src;
  if (node->op == GGML_OP_SET_ROWS && root != nullptr && IsCacheName(root->name) && found->seen.insert(root).second) {
    found->layout.tensors.push_back({root->ne[0], root->ne[1] * root->ne[2] * root->ne[3]});
  }
  return false;
}

}  // namespace

int64_t CacheLayout::num_values() const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors) sum += tensor.row_values * tensor.num_rows;
  return sum;
}

int64_t CacheLayout::BytesAs(int ggml_type) const {
  int64_t sum = 0;
  for (const Tensor& tensor : tensors) {
    sum += static_cast<int64_t>(ggml_row_size(static_cast<enum ggml_type>(ggml_type), tensor.row_values)) * tensor.num_rows;
  }
  return sum;
}

StatusOr<CacheLayout> ProbeLayout(const Model& stock_model, int context_tokens, int threads) {
  Found found;
  llama_context_params params = llama_context_default_params();
  params.n_ctx = static_cast<uint32_t>(context_tokens);
  params.n_outputs_max = 1;
  params.n_outputs_max_per_seq = 0;
  params.n_threads = params.n_threads_batch = threads;
  params.flash_attn_type = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  params.cb_eval = OnNode;
  params.cb_eval_user_data = &found;
  const LlamaLogMark mark;
  llama_context* context = llama_init_from_model(stock_model.get(), params);
  if (context == nullptr) {
    return Status::OutOfMemory(fmt::format("no context of {} tokens could be made: {}", context_tokens, mark.Errors()));
  }
  Token token = std::max(stock_model.bos(), 0);
  const bool has_memory = llama_get_memory(context) != nullptr;
  const int result = has_memory ? llama_decode(context, llama_batch_get_one(&token, 1)) : 0;
  llama_free(context);
  if (result != 0) return Status::Internal(fmt::format("llama.cpp could not decode a token ({}): {}", result, mark.Errors()));
  if (found.layout.tensors.empty()) {
    return Status::Unsupported(fmt::format("this model ({}) keeps no KV cache: there is nothing to compress", stock_model.description()));
  }
  return found.layout;
}

}  // namespace swivel
