#include "plugin/kv_names.h"

#include <charconv>
#include <cstring>
#include <string_view>

#include "plugin/host.h"

namespace swivel::plugin {

bool HasCacheName(const ggml_tensor* tensor) { return std::memcmp(tensor->name, "cache_", 6) == 0; }

std::optional<KvName> ParseKvRoot(const ggml_tensor* tensor) {
  if (tensor->view_src != nullptr || static_cast<int>(tensor->op) != host().op.none) return std::nullopt;
  const std::string_view name = tensor->name;
  KvName parsed;
  if (name.starts_with("cache_k_l")) {
    parsed.side = Side::kKey;
  } else if (name.starts_with("cache_v_l")) {
    parsed.side = Side::kValue;
  } else {
    return std::nullopt;
  }
  const char* end = name.data() + name.size();
  const auto result = std::from_chars(name.data() + 9, end, parsed.layer);
  if (result.ec != std::errc() || result.ptr != end || parsed.layer < 0) return std::nullopt;
  return parsed;
}

bool IsPackableRoot(const ggml_tensor* tensor) {
  return HasCacheName(tensor) && tensor->type == GGML_TYPE_F16 && tensor->ne[3] == 1 && ParseKvRoot(tensor).has_value();
}

}  // namespace swivel::plugin
