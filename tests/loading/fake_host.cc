#include "fake_host.h"

#include <dlfcn.h>

#include <cstring>

#include "ggml-backend-impl.h"
#include "ggml.h"

#define EXPORT extern "C" __attribute__((visibility("default")))

namespace {

using swivel::plugin_test::FakeHost;
FakeHost* fake = nullptr;

// The pinned ggml's own function.
template <class Function>
Function* Real(const char* name) {
  void* base = dlopen("libggml-base.so.0", RTLD_LAZY | RTLD_NOLOAD);
  return reinterpret_cast<Function*>(dlsym(base, name));
}

void* Slot(ggml_backend_buffer_type_t type, int slot) { return reinterpret_cast<void**>(type)[slot]; }
int AfterLists(int in_api3, int inserted_before) { return fake->buffer_type_of_api2 ? in_api3 - inserted_before : in_api3; }

ggml_backend_reg_t Load(const char* plugin) {
  void* handle = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  // Not a tail call: the return address is what the plugin knows its host by.
  ggml_backend_reg_t volatile registry = reinterpret_cast<ggml_backend_init_t>(dlsym(handle, "ggml_backend_init"))();
  return registry;
}

}  // namespace

EXPORT void fake_host_begin(FakeHost* host) {
  fake = host;
  host->load = Load;
}

EXPORT const char* ggml_version(void) { return fake->version; }
EXPORT size_t ggml_tensor_overhead(void) { return 32 + sizeof(ggml_tensor) + fake->tensor_bytes_more; }
EXPORT const char* ggml_op_name(ggml_op op) {
  const char* name = Real<decltype(::ggml_op_name)>("ggml_op_name")(op);
  return std::strcmp(name, fake->lost_operation) == 0 ? "LOST" : name;
}
EXPORT ggml_backend_reg_t ggml_backend_dev_backend_reg(ggml_backend_dev_t device) {
  static ggml_backend_reg registry;
  if (device != ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)) return device->reg;
  registry = *device->reg;
  registry.api_version = fake->api_version;
  return &registry;
}
// A second ggml has a registry of its own.
EXPORT ggml_backend_reg_t ggml_backend_reg_by_name(const char*) { return nullptr; }

EXPORT size_t ggml_backend_buft_get_alignment(ggml_backend_buffer_type_t type) {
  return reinterpret_cast<size_t (*)(ggml_backend_buffer_type_t)>(Slot(type, AfterLists(3, 1)))(type);
}
EXPORT size_t ggml_backend_buft_get_max_size(ggml_backend_buffer_type_t type) {
  return reinterpret_cast<size_t (*)(ggml_backend_buffer_type_t)>(Slot(type, AfterLists(4, 1)))(type);
}
EXPORT size_t ggml_backend_buft_get_alloc_size(ggml_backend_buffer_type_t type, const ggml_tensor* tensor) {
  return reinterpret_cast<size_t (*)(ggml_backend_buffer_type_t, const ggml_tensor*)>(Slot(type, AfterLists(5, 1)))(type, tensor);
}
EXPORT bool ggml_backend_buft_is_host(ggml_backend_buffer_type_t type) {
  const int slot = fake->is_host_slot >= 0 ? fake->is_host_slot : AfterLists(7, 2);
  return reinterpret_cast<bool (*)(ggml_backend_buffer_type_t)>(Slot(type, slot))(type);
}
EXPORT ggml_backend_dev_t ggml_backend_buft_get_device(ggml_backend_buffer_type_t type) {
  return static_cast<ggml_backend_dev_t>(Slot(type, AfterLists(8, 2)));
}
