#include "plugin/host_probe.h"

#include <cstdint>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "ggml-backend-impl.h"
#include "ggml.h"

namespace swivel::plugin {
namespace {

constexpr int kNumSlots = 32;  // more than any table has, data members included

// What the entry that is called returns: read as a pointer, a size, an enum or a bool. Aligned like a pointer of the host's would be.
uintptr_t answer = 0;
int called = -1;

template <int slot>
uintptr_t Entry() {
  called = slot;
  return answer;
}

using Slots = void* [kNumSlots];

template <int... slot>
void Fill(Slots& slots, std::integer_sequence<int, slot...>) {
  ((slots[slot] = reinterpret_cast<void*>(&Entry<slot>)), ...);
}

// A made-up object: every pointer-sized member is an entry of its own.
struct Object {
  Object() { Fill(slots, std::make_integer_sequence<int, kNumSlots>()); }
  template <class Handle>
  Handle As() {
    return reinterpret_cast<Handle>(slots);
  }
  // Which member holds this value.
  int Holds(const void* value) const {
    for (int slot = 0; slot < kNumSlots; ++slot) {
      if (slots[slot] == value) return slot;
    }
    return -1;
  }
  Slots slots;
};

class Prober {
 public:
  explicit Prober(const std::function<void*(const char*)>& find) : find_(find) {}

  // The entry that the host's `function` calls; -1: none.
  template <class Function, class... Arguments>
  int SlotCalled(const char* name, uintptr_t answer_with, Arguments... arguments) {
    auto* function = reinterpret_cast<Function*>(find_(name));
    if (function == nullptr) return kUnknown;
    called = -1;
    answer = answer_with;
    function(arguments...);
    return called;
  }

  // Which member the host's `function` returns.
  template <class Function, class Handle>
  int SlotRead(const char* name, Object* object, Handle handle) {
    auto* function = reinterpret_cast<Function*>(find_(name));
    if (function == nullptr) return kUnknown;
    const auto value = function(handle);
    return object->Holds(reinterpret_cast<const void*>(value));
  }

  void Expect(const char* table, const char* entry, int expected, int found) {
    if (found == expected || found == kUnknown || !error_.empty()) return;
    error_ = std::string("entry ") + entry + " of the " + table + " is " +
             (found < 0 ? "not where it was looked for" : "number " + std::to_string(found)) + ", known is " + std::to_string(expected) +
             "; a newer Swivel may know this ggml";
  }
  const std::string& error() const { return error_; }

  static constexpr int kUnknown = -2;

 private:
  const std::function<void*(const char*)>& find_;
  std::string error_;  // the first
};

// Types only: the plugin must not need a symbol of ggml.
#define SWIVEL_CALLED(function, answer_with, ...) prober->SlotCalled<decltype(::function)>(#function, answer_with, __VA_ARGS__)
#define SWIVEL_READ(function, object, handle) prober->SlotRead<decltype(::function)>(#function, object, handle)
template <class Table>
constexpr int SlotOf(size_t offset) {
  return static_cast<int>(offset / sizeof(void*));
}
#define SWIVEL_SLOT(type, member) SlotOf<type>(offsetof(type, member))

// A tensor of one float; what accessors with bounds checks want to see.
ggml_tensor SmallTensor(ggml_backend_buffer_t buffer) {
  ggml_tensor tensor = {};
  tensor.type = GGML_TYPE_F32;
  tensor.buffer = buffer;
  for (int64_t& n : tensor.ne) n = 1;
  for (size_t& n : tensor.nb) n = sizeof(float);
  static float value;
  tensor.data = &value;
  return tensor;
}

TableGeneration ProbeBufferType(Prober* prober) {
  Object type;
  auto* handle = type.As<ggml_backend_buffer_type_t>();
  ggml_tensor tensor = SmallTensor(nullptr);
  // API 3 inserted an entry before the alignment and one before is_host.
  const int alignment = SWIVEL_CALLED(ggml_backend_buft_get_alignment, 64, handle);
  const bool lists = alignment == SWIVEL_SLOT(ggml_backend_buffer_type, iface.get_alignment);
  const auto expect = [&](const char* entry, int in_api3, int inserted_before, int found) {
    prober->Expect("buffer type", entry, lists ? in_api3 : in_api3 - inserted_before, found);
  };
  expect("get_name", SWIVEL_SLOT(ggml_backend_buffer_type, iface.get_name), 0, SWIVEL_CALLED(ggml_backend_buft_name, 64, handle));
  expect("alloc_buffer", SWIVEL_SLOT(ggml_backend_buffer_type, iface.alloc_buffer), 0,
         SWIVEL_CALLED(ggml_backend_buft_alloc_buffer, 0, handle, size_t{64}));
  expect("get_alignment", SWIVEL_SLOT(ggml_backend_buffer_type, iface.get_alignment), 1, alignment);
  expect("get_max_size", SWIVEL_SLOT(ggml_backend_buffer_type, iface.get_max_size), 1,
         SWIVEL_CALLED(ggml_backend_buft_get_max_size, 64, handle));
  // Hosts check that a size is not below, nor (for this operation) above that of the tensor.
  expect("get_alloc_size", SWIVEL_SLOT(ggml_backend_buffer_type, iface.get_alloc_size), 1,
         SWIVEL_CALLED(ggml_backend_buft_get_alloc_size, sizeof(float), handle, static_cast<const ggml_tensor*>(&tensor)));
  expect("is_host", SWIVEL_SLOT(ggml_backend_buffer_type, iface.is_host), 2, SWIVEL_CALLED(ggml_backend_buft_is_host, 0, handle));
  expect("device", SWIVEL_SLOT(ggml_backend_buffer_type, device), 2, SWIVEL_READ(ggml_backend_buft_get_device, &type, handle));
  return lists ? TableGeneration::kApi3 : TableGeneration::kApi2;
}

void ProbeBuffer(Prober* prober) {
  Object buffer;
  auto* handle = buffer.As<ggml_backend_buffer_t>();
  ggml_tensor tensor = SmallTensor(handle);
  float value = 0;
  const auto expect = [&](const char* entry, int expected, int found) { prober->Expect("buffer", entry, expected, found); };
#define SWIVEL_EXPECT(member, found) expect(#member, SWIVEL_SLOT(ggml_backend_buffer, member), found)
  SWIVEL_EXPECT(iface.get_base, SWIVEL_CALLED(ggml_backend_buffer_get_base, 64, handle));
  SWIVEL_EXPECT(iface.init_tensor, SWIVEL_CALLED(ggml_backend_buffer_init_tensor, 0, handle, &tensor));
  SWIVEL_EXPECT(iface.clear, SWIVEL_CALLED(ggml_backend_buffer_clear, 0, handle, uint8_t{0}));
  SWIVEL_EXPECT(iface.reset, SWIVEL_CALLED(ggml_backend_buffer_reset, 0, handle));
  SWIVEL_EXPECT(iface.set_tensor,
                SWIVEL_CALLED(ggml_backend_tensor_set, 0, &tensor, static_cast<const void*>(&value), size_t{0}, sizeof(value)));
  SWIVEL_EXPECT(iface.get_tensor, SWIVEL_CALLED(ggml_backend_tensor_get, 0, static_cast<const ggml_tensor*>(&tensor),
                                                static_cast<void*>(&value), size_t{0}, sizeof(value)));
  SWIVEL_EXPECT(iface.memset_tensor, SWIVEL_CALLED(ggml_backend_tensor_memset, 0, &tensor, uint8_t{0}, size_t{0}, sizeof(value)));
  SWIVEL_EXPECT(buft, SWIVEL_READ(ggml_backend_buffer_get_type, &buffer, handle));
  SWIVEL_EXPECT(size, SWIVEL_READ(ggml_backend_buffer_get_size, &buffer, handle));
#undef SWIVEL_EXPECT
}

void ProbeDevice(Prober* prober) {
  Object device;
  auto* handle = device.As<ggml_backend_dev_t>();
  ggml_tensor tensor = SmallTensor(nullptr);
  size_t free = 0, total = 0;
  const auto expect = [&](const char* entry, int expected, int found) { prober->Expect("device", entry, expected, found); };
#define SWIVEL_EXPECT(member, found) expect(#member, SWIVEL_SLOT(ggml_backend_device, member), found)
  SWIVEL_EXPECT(iface.get_name, SWIVEL_CALLED(ggml_backend_dev_name, 64, handle));
  SWIVEL_EXPECT(iface.get_description, SWIVEL_CALLED(ggml_backend_dev_description, 64, handle));
  SWIVEL_EXPECT(iface.get_memory, SWIVEL_CALLED(ggml_backend_dev_memory, 0, handle, &free, &total));
  SWIVEL_EXPECT(iface.get_type, SWIVEL_CALLED(ggml_backend_dev_type, 0, handle));
  SWIVEL_EXPECT(iface.init_backend, SWIVEL_CALLED(ggml_backend_dev_init, 0, handle, static_cast<const char*>(nullptr)));
  SWIVEL_EXPECT(iface.get_buffer_type, SWIVEL_CALLED(ggml_backend_dev_buffer_type, 0, handle));
  SWIVEL_EXPECT(iface.supports_op, SWIVEL_CALLED(ggml_backend_dev_supports_op, 0, handle, static_cast<const ggml_tensor*>(&tensor)));
  SWIVEL_EXPECT(iface.supports_buft,
                SWIVEL_CALLED(ggml_backend_dev_supports_buft, 0, handle, static_cast<ggml_backend_buffer_type_t>(nullptr)));
  SWIVEL_EXPECT(reg, SWIVEL_READ(ggml_backend_dev_backend_reg, &device, handle));
#undef SWIVEL_EXPECT
}

void ProbeRegistry(Prober* prober) {
  Object registry;
  auto* handle = registry.As<ggml_backend_reg_t>();
  const auto expect = [&](const char* entry, int expected, int found) { prober->Expect("registry", entry, expected, found); };
#define SWIVEL_EXPECT(member, found) expect(#member, SWIVEL_SLOT(ggml_backend_reg, member), found)
  SWIVEL_EXPECT(iface.get_name, SWIVEL_CALLED(ggml_backend_reg_name, 64, handle));
  SWIVEL_EXPECT(iface.get_device_count, SWIVEL_CALLED(ggml_backend_reg_dev_count, 0, handle));
  SWIVEL_EXPECT(iface.get_proc_address, SWIVEL_CALLED(ggml_backend_reg_get_proc_address, 0, handle, ""));
#undef SWIVEL_EXPECT
}

void ProbeBackend(Prober* prober) {
  Object backend;
  auto* handle = backend.As<ggml_backend_t>();
  const auto expect = [&](const char* entry, int expected, int found) { prober->Expect("backend", entry, expected, found); };
#define SWIVEL_EXPECT(member, found) expect(#member, SWIVEL_SLOT(ggml_backend, member), found)
  SWIVEL_EXPECT(iface.get_name, SWIVEL_CALLED(ggml_backend_name, 64, handle));
  SWIVEL_EXPECT(iface.synchronize, SWIVEL_CALLED(ggml_backend_synchronize, 0, handle));
  SWIVEL_EXPECT(iface.graph_compute, SWIVEL_CALLED(ggml_backend_graph_compute_async, 0, handle, static_cast<ggml_cgraph*>(nullptr)));
  SWIVEL_EXPECT(device, SWIVEL_READ(ggml_backend_get_device, &backend, handle));
#undef SWIVEL_EXPECT
}

}  // namespace

StatusOr<TableGeneration> ProbeTables(const std::function<void*(const char* name)>& find) {
  Prober prober(find);
  const TableGeneration generation = ProbeBufferType(&prober);
  ProbeBuffer(&prober);
  ProbeDevice(&prober);
  ProbeRegistry(&prober);
  ProbeBackend(&prober);
  if (!prober.error().empty()) return Status::Unsupported(prober.error());
  return generation;
}

}  // namespace swivel::plugin
