#include "plugin/device.h"

#include <string>

#include "plugin/backend.h"
#include "plugin/buffer_type.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/kv_names.h"
#include "plugin/log.h"
#include "plugin/refusal.h"

namespace swivel::plugin {
namespace {

ggml_backend_device device;
// One complaint a context about attention that passes us by; a context initialises its backends on the thread that plans its graphs.
thread_local bool complained = false;

const char* Name(ggml_backend_dev_t) { return "SWIVEL"; }
const char* Description(ggml_backend_dev_t) { return "compressed KV cache on the CPU"; }
void Memory(ggml_backend_dev_t, size_t* free, size_t* total) { host().ggml_backend_dev_memory(host().cpu, free, total); }
// Hosts put the caches of offloaded layers, and by default all layers are offloaded, on devices of this type.
enum ggml_backend_dev_type Type(ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_GPU; }

void Properties(ggml_backend_dev_t self, ggml_backend_dev_props* properties) {
  properties->name = Name(self);
  properties->description = Description(self);
  properties->type = Type(self);
  Memory(self, &properties->memory_free, &properties->memory_total);
  properties->caps = {};
  // Left false, it would turn memory mapping of the model off for everyone. In hosts older than 0.20.0 this byte is padding.
  properties->caps.mmap_support = true;
}

ggml_backend_t InitBackend(ggml_backend_dev_t self, const char*) {
  complained = false;
  return NewBackend(self);
}

ggml_backend_buffer_type_t BufferType(ggml_backend_dev_t) { return OurBufferType(); }

// Own buffers and all that the CPU reads (host memory, repacked weights): so ops whose weights are in CPU buffers come to us, and the
// graph is one split.
bool SupportsBufferType(ggml_backend_dev_t, ggml_backend_buffer_type_t type) {
  return type == OurBufferType() || host().ggml_backend_dev_supports_buft(host().cpu, type);
}

// The loader asks about weights with a zero-size buffer of our type: refused, they stay in CPU buffers (memory-mapped, repacked). The
// memory-fit step gives KV tensors such a buffer, too; those are told apart by name.
bool HasWeightProbe(const ggml_tensor* op) {
  for (const ggml_tensor* source : op->src) {
    if (source == nullptr) continue;
    const ggml_tensor* root = RootOf(source);
    if (InOurBuffer(root) && root->buffer->size == 0 && !HasCacheName(root)) return true;
  }
  return false;
}

const ggml_tensor* OwnCacheOf(const ggml_tensor* tensor) {
  if (tensor == nullptr) return nullptr;
  const ggml_tensor* root = RootOf(tensor);
  return HasCacheName(root) && InOurBuffer(root) && ParseKvRoot(root).has_value() ? root : nullptr;
}

bool TouchesOwnCache(const ggml_tensor* op) {
  if (OwnCacheOf(op) != nullptr) return true;
  for (const ggml_tensor* source : op->src) {
    if (OwnCacheOf(source) != nullptr) return true;
  }
  return false;
}

// The cache that an attention node reads (FLASH_ATTN_EXT, or without flash attention the products q k and p v); null for other nodes.
const ggml_tensor* CacheReadBy(const ggml_tensor* op) {
  const int id = static_cast<int>(op->op);
  const ggml_tensor* root = id == host().op.flash_attn_ext ? RootOf(op->src[1]) : id == host().op.mul_mat ? RootOf(op->src[0]) : nullptr;
  return root != nullptr && HasCacheName(root) && ParseKvRoot(root).has_value() ? root : nullptr;
}

// Attention over a cache that is somewhere else (-nkvo, layers left on the CPU) must be the CPU's: taken by us it would be a silent
// bypass, and a host that compares devices would turn flash attention off for all layers.
bool IsForeignAttention(const ggml_tensor* op) {
  const ggml_tensor* root = CacheReadBy(op);
  if (root == nullptr || root->buffer == nullptr || InOurBuffer(root)) return false;
  if (root->buffer->size != 0 && !complained) {
    complained = true;
    Say("attention of layer " + std::to_string(ParseKvRoot(root)->layer) + " runs over a cache the plugin does not own (" +
        root->buffer->buft->iface.get_name(root->buffer->buft) +
        "): those layers are not compressed; offload all layers (-ngl 99, no -nkvo)");
  }
  return true;
}

// Configurations that the plugin does not serve are answered with true: false would make the host abort, the failed allocation that
// follows a refusal does not.
void RefuseWhatIsNotServed(const ggml_tensor* op) {
  const int id = static_cast<int>(op->op);
  if (id == host().op.flash_attn_ext) {
    if (Status status = caches().Learn(op); !status.ok()) Refuse(RefusedBy::kGraph, status.message());
    return;
  }
  // Without flash attention V is stored transposed, one element a row, and the cache is read by matrix products. A cache that was read by
  // flash attention before has lost it: a host may switch it off while it plans. Where neither is the case, the model itself cannot use it
  // (a bias on the logits, as T5 has): its cache stays f16, and the first graph says so.
  const bool transposed = id == host().op.set_rows && op->ne[0] == 1 && RootOf(op)->ne[0] > 1 && caches().Find(op) != nullptr;
  const auto was_learnt = [](const ggml_tensor* tensor) {
    const KvTensor* kv = caches().Find(tensor);
    return kv != nullptr && kv->width() != 0;
  };
  const bool product = id == host().op.mul_mat && (was_learnt(op->src[0]) || was_learnt(op->src[1]));
  if (transposed || product) {
    Refuse(RefusedBy::kGraph, "the compressed cache needs flash attention, which is off; use -fa auto (the default) or -fa on");
  }
}

bool SupportsOp(ggml_backend_dev_t, const ggml_tensor* op) {
  if (HasWeightProbe(op)) return false;
  if (IsForeignAttention(op)) return false;
  if (TouchesOwnCache(op)) {
    CloseContextOfThread();
    if (host().IsViewOp(op)) return true;
    RefuseWhatIsNotServed(op);
  }
  return host().ggml_backend_dev_supports_op(host().cpu, op);
}

}  // namespace

void InitDevice(ggml_backend_reg_t registry) {
  device.iface = {};
  device.iface.get_name = Name;
  device.iface.get_description = Description;
  device.iface.get_memory = Memory;
  device.iface.get_type = Type;
  device.iface.get_props = Properties;
  device.iface.init_backend = InitBackend;
  device.iface.get_buffer_type = BufferType;
  device.iface.supports_op = SupportsOp;
  device.iface.supports_buft = SupportsBufferType;
  device.reg = registry;
  InitBufferType(&device);
}

ggml_backend_dev_t OurDevice() { return &device; }

}  // namespace swivel::plugin
