// Which tensors are the KV cache.
//
// llama.cpp's cache tensors ("roots") are recognised by their exact name, cache_k_l<layer> or cache_v_l<layer>. A prefix test would also
// take temporaries such as "cache_k_l0 (view) (copy)"; hybrid models' recurrent states are cache_r_l<i> and stay ordinary tensors.
#ifndef SWIVEL_PLUGIN_KV_NAMES_H_
#define SWIVEL_PLUGIN_KV_NAMES_H_

#include <optional>

#include "codec/codec.h"
#include "ggml.h"

namespace swivel::plugin {

struct KvName {
  Side side = Side::kKey;
  int layer = 0;
};

// ggml resolves views of views, so one step reaches the tensor that owns the memory.
inline const ggml_tensor* RootOf(const ggml_tensor* tensor) { return tensor->view_src != nullptr ? tensor->view_src : tensor; }

// The name of a root, whatever its type; none for everything else.
std::optional<KvName> ParseKvRoot(const ggml_tensor* tensor);

// True for every tensor of the caches' name family ("cache_…"): roots, their views, states of hybrid models. A cheap first test.
bool HasCacheName(const ggml_tensor* tensor);

// A root that the plugin stores packed: f16 and of at most three dimensions.
bool IsPackableRoot(const ggml_tensor* tensor);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_KV_NAMES_H_
