#include "plugin/buffer_type.h"

#include <algorithm>
#include <cstdint>
#include <string>

#include "cache/spec.h"
#include "plugin/buffer.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/kv_names.h"
#include "plugin/log.h"
#include "plugin/refusal.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

constexpr size_t kAlignment = 64;

// What this thread is allocating. llama.cpp asks for the sizes of all tensors of a cache and allocates their buffer right after; a
// context allocates its caches (one, or two with a sliding window) before it plans its first graph.
thread_local bool sized_cache = false;
thread_local int open_context = 0;

// The head width is not known when sizes are asked for, so this is an estimate from a head width that is never smaller than what most
// models have: 64, or what divides the row. It is what the host logs and what its memory-fit step counts; storage itself is elsewhere.
// The first 2n layers stand for the first and last n "boundary" layers: the total is right, and the number of layers is not known here.
size_t PackedSize(const CacheSpec& spec, const ggml_tensor* root) {
  const KvName name = *ParseKvRoot(root);
  const int64_t row = root->ne[0];
  const int width = static_cast<int>(std::min<int64_t>(64, row & -row));
  const CodecId side_codec = name.side == Side::kKey ? spec.k : spec.v;
  const Codec& codec = GetCodec(name.layer < 2 * spec.boundary_layers ? spec.boundary_codec : side_codec);
  if (!CheckWidth(codec, width).ok()) return host().ggml_nbytes(root);
  const int64_t groups = (root->ne[1] + kGroupTokens - 1) / kGroupTokens * root->ne[2] * (row / width);
  const size_t bytes = spec.GroupBytes(name.side, codec, width) * static_cast<size_t>(groups);
  return (bytes + kAlignment - 1) / kAlignment * kAlignment;
}

const char* Name(ggml_backend_buffer_type_t) { return "SWIVEL"; }

ggml_backend_buffer_t Allocate(ggml_backend_buffer_type_t type, size_t size) {
  const bool for_cache = sized_cache;
  sized_cache = false;
  if (for_cache) {
    ForgetGraphRefusal();
    if (open_context == 0) open_context = caches().NewContext();
  }
  if (TakeRefusal()) return nullptr;
  if (TraceOn()) Trace("alloc_buffer of " + std::to_string(size) + " bytes" + (for_cache ? " for a KV cache" : ""));
  return NewBuffer(type, size, for_cache ? open_context : 0);
}

size_t Alignment(ggml_backend_buffer_type_t) { return kAlignment; }

size_t AllocSize(ggml_backend_buffer_type_t, const ggml_tensor* tensor) {
  if (!HasCacheName(tensor)) return host().ggml_nbytes(tensor);
  const auto name = ParseKvRoot(tensor);
  if (!name.has_value()) return host().ggml_nbytes(tensor);
  sized_cache = true;
  const CacheSpec spec = CurrentSpec();
  if (!IsPackableRoot(tensor)) {
    const char* flag = name->side == Side::kKey ? "-ctk " : "-ctv ";
    Refuse(RefusedBy::kCacheTensor, std::string(flag) + host().ggml_type_name(tensor->type) +
                                        " cannot be combined with the plugin, which stores the cache itself as " + spec.ToString() +
                                        "; leave -ctk/-ctv at f16 (the default)");
    return host().ggml_nbytes(tensor);
  }
  return PackedSize(spec, tensor);
}

// Our memory is readable by the CPU, but KV tensors in it do not have the standard layout.
bool IsHost(ggml_backend_buffer_type_t) { return false; }

// The vtable as raw slots: API 3 inserted alloc_buffer_n and get_alloc_size_n, so no one struct describes both.
void* slots[16];

}  // namespace

ggml_backend_buffer_type_t OurBufferType() { return reinterpret_cast<ggml_backend_buffer_type_t>(slots); }

void InitBufferType(ggml_backend_dev_t device) {
  const bool with_lists = host().buffer_type_lists;
  size_t next = 0;
  const auto put = [&next](auto* pointer) { slots[next++] = reinterpret_cast<void*>(pointer); };
  put(Name);
  put(Allocate);
  if (with_lists) slots[next++] = nullptr;  // alloc_buffer_n: the host's default calls alloc_buffer
  put(Alignment);
  slots[next++] = nullptr;  // get_max_size: no limit
  put(AllocSize);
  if (with_lists) slots[next++] = nullptr;  // get_alloc_size_n
  put(IsHost);
  put(device);
  slots[next++] = nullptr;  // context
}

size_t StoreBytes(const CacheSpec& spec, const ggml_tensor* root) {
  const size_t packed = PackedSize(spec, root);
  if (!spec.Staged()) return packed;
  const KvName name = *ParseKvRoot(root);
  const size_t tiers = 1 + spec.DecayCodecs(GetCodec(name.side == Side::kKey ? spec.k : spec.v)).size();
  return host().ggml_nbytes(root) + packed * tiers;  // exact rows, and the groups of each tier
}

void CacheTensorPlaced() { sized_cache = false; }

void CloseContextOfThread() { open_context = 0; }

}  // namespace swivel::plugin
