#include "plugin/buffer.h"

#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "plugin/buffer_type.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/kv_names.h"
#include "plugin/log.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

KvBuffer* Context(ggml_backend_buffer_t buffer) { return static_cast<KvBuffer*>(buffer->context); }
uint8_t* Data(const ggml_tensor* tensor) { return static_cast<uint8_t*>(tensor->data); }

void TraceCall(const char* call, const ggml_tensor* tensor, size_t offset, size_t size) {
  if (!TraceOn() || !HasCacheName(RootOf(tensor))) return;
  const size_t row = RootOf(tensor)->nb[1];
  const bool whole_rows = row != 0 && offset % row == 0 && size % row == 0;
  Trace(std::string(call) + " of '" + tensor->name + "' " + (whole_rows ? "whole rows" : "parts of rows"));
}

// Parts of rows count as one.
uint64_t RowsIn(const KvTensor& kv, size_t size) { return (size + kv.row_bytes() - 1) / kv.row_bytes(); }

void Free(ggml_backend_buffer_t buffer) {
  caches().Remove(Context(buffer));
  delete Context(buffer);
}

void* Base(ggml_backend_buffer_t buffer) { return Context(buffer)->memory.data(); }

ggml_status InitTensor(ggml_backend_buffer_t buffer, ggml_tensor* tensor) {
  // Registers roots as soon as they have an address, so that the layers of a context are all known before its first graph.
  if (!IsPackableRoot(tensor)) return GGML_STATUS_SUCCESS;
  KvTensor* kv = caches().Find(tensor);
  CacheTensorPlaced();
  if (kv == nullptr || !kv->plain() || !Context(buffer)->sized_by_us) return GGML_STATUS_SUCCESS;
  if (Status status = kv->Hold(StoreBytes(kv->buffer().spec, tensor)); !status.ok()) {
    SayOnce(status.message() + "; the cache is not created", Event("refused"));
    return GGML_STATUS_ALLOC_FAILED;
  }
  return GGML_STATUS_SUCCESS;
}

void Memset(ggml_backend_buffer_t, ggml_tensor* tensor, uint8_t value, size_t offset, size_t size) {
  TraceCall("memset_tensor", tensor, offset, size);
  size_t start = 0;
  if (KvTensor* kv = caches().Find(tensor, &start); kv != nullptr) {
    const std::vector<uint8_t> bytes(size, value);
    kv->Write(start + offset, bytes.data(), size);
    return;
  }
  std::memset(Data(tensor) + offset, value, size);
}

void Set(ggml_backend_buffer_t buffer, ggml_tensor* tensor, const void* data, size_t offset, size_t size) {
  TraceCall("set_tensor", tensor, offset, size);
  size_t start = 0;
  if (KvTensor* kv = caches().Find(tensor, &start); kv != nullptr) {
    kv->Write(start + offset, data, size);
    Counters& counters = kv->buffer().counters;
    counters.rows_restored.fetch_add(RowsIn(*kv, size), std::memory_order_relaxed);
    counters.restored_since_graph.fetch_add(RowsIn(*kv, size), std::memory_order_relaxed);
    return;
  }
  if (HasCacheName(tensor)) Context(buffer)->written_unknown = true;
  std::memcpy(Data(tensor) + offset, data, size);
}

void Get(ggml_backend_buffer_t, const ggml_tensor* tensor, void* data, size_t offset, size_t size) {
  TraceCall("get_tensor", tensor, offset, size);
  size_t start = 0;
  if (KvTensor* kv = caches().Find(tensor, &start); kv != nullptr) {
    kv->Read(start + offset, data, size);
    kv->buffer().counters.rows_read.fetch_add(RowsIn(*kv, size), std::memory_order_relaxed);
    return;
  }
  std::memcpy(data, Data(tensor) + offset, size);
}

// False makes the host copy through get_tensor and set_tensor, in f16.
bool Copy(ggml_backend_buffer_t, const ggml_tensor* source, ggml_tensor* target) {
  TraceCall("cpy_tensor", target, 0, 0);
  size_t from_offset = 0, to_offset = 0;
  KvTensor* from = caches().Find(source, &from_offset);
  KvTensor* to = caches().Find(target, &to_offset);
  if (from == nullptr || to == nullptr) return false;
  return caches().CopyRows(from, from_offset, to, to_offset, host().ggml_nbytes(source));
}

void Clear(ggml_backend_buffer_t buffer, uint8_t value) {
  KvBuffer* own = Context(buffer);
  if (TraceOn()) Trace("clear(" + std::to_string(value) + ")" + (own->tensors.empty() ? "" : " of a KV cache"));
  if (value == 0) {
    own->memory.Discard();
  } else {
    std::memset(own->memory.data(), value, own->size);
  }
  caches().Clear(own, value);
}

}  // namespace

ggml_backend_buffer_t NewBuffer(ggml_backend_buffer_type_t type, size_t size, int context) {
  auto memory = LazyMemory::Reserve(size);
  if (!memory.ok()) {
    Say(memory.status().message());
    return nullptr;
  }
  auto own = std::make_unique<KvBuffer>();
  own->memory = std::move(memory.value());
  own->size = size;
  own->spec = CurrentSpec();
  own->context = context;
  own->sized_by_us = context != 0;

  ggml_backend_buffer_i calls = {};
  calls.free_buffer = Free;
  calls.get_base = Base;
  calls.init_tensor = InitTensor;
  calls.memset_tensor = Memset;
  calls.set_tensor = Set;
  calls.get_tensor = Get;
  calls.cpy_tensor = Copy;
  calls.clear = Clear;
  caches().Add(own.get());
  return host().ggml_backend_buffer_init(type, calls, own.release(), size);
}

}  // namespace swivel::plugin
