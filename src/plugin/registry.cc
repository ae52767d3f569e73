// The entry point that a ggml host looks for, and the functions that we offer by name.
#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>

#include "plugin/backend.h"
#include "plugin/device.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/log.h"
#include "plugin/next_backend.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

ggml_backend_reg registry;
bool registered = false;  // a host has been given the registry

const char* Name(ggml_backend_reg_t) { return "SWIVEL"; }
size_t DeviceCount(ggml_backend_reg_t) { return 1; }
ggml_backend_dev_t Device(ggml_backend_reg_t, size_t) { return OurDevice(); }

// "swivel_set_kv": the spec of caches that are allocated from now on. Null, or why the text is not a spec; the text is valid until the
// next call on this thread.
const char* SetKv(const char* spec) {
  thread_local std::string error;
  const Status status = spec != nullptr ? SetSpec(spec) : Status::Invalid("no spec");
  if (status.ok()) return nullptr;
  error = status.message();
  return error.c_str();
}

// "swivel_report": JSON about the live caches, written like snprintf: the whole length is returned, at most `capacity` bytes are
// written, the last of them 0.
size_t WriteReport(char* out, size_t capacity) {
  const std::string text = registered ? caches().Report() : "{\"loaded\":false}";
  if (out != nullptr && capacity > 0) {
    const size_t length = std::min(text.size(), capacity - 1);
    std::memcpy(out, text.data(), length);
    out[length] = '\0';
  }
  return text.size();
}

void* ProcAddress(ggml_backend_reg_t, const char* name) {
  const std::string_view wanted = name;
  if (wanted == "ggml_backend_set_n_threads") return reinterpret_cast<void*>(SetNumThreads);
  if (wanted == "ggml_backend_set_abort_callback") return reinterpret_cast<void*>(SetAbortCallback);
  if (wanted == "swivel_set_kv") return reinterpret_cast<void*>(SetKv);
  if (wanted == "swivel_report") return reinterpret_cast<void*>(WriteReport);
  return nullptr;
}

Status Load(const void* caller) {
  if (Status status = ReadLogVariable(); !status.ok()) return status;
  if (Status status = BindHost(caller); !status.ok()) return status;
  if (host().ggml_backend_reg_by_name("SWIVEL") != nullptr) return Status::Unsupported("another copy of the plugin is loaded already");
  if (Status status = ReadEnvironment(); !status.ok()) return status;
  registry.api_version = host().api_version;
  registry.iface = {Name, DeviceCount, Device, ProcAddress};
  InitDevice(&registry);
  return {};
}

void Announce() {
  const std::string spec = CurrentSpec().ToString(), kernels_name = TargetName(kernels().target), version = host().ggml_version();
  std::string text = "loaded into ggml " + version + " (backend API " + std::to_string(host().api_version) + "), kernels " + kernels_name +
                     ", kv " + spec + (std::getenv("SWIVEL_KV") == nullptr ? " (the default: SWIVEL_KV is not set)" : "");
  if (host().newer_than_known)
    text += "; this API is newer than the plugin, its tables are those of API " + std::string(host().buffer_type_lists ? "3" : "2");
  SayLoaded(
      text,
      Event("loaded").Text("ggml", version).Number("api", int64_t{host().api_version}).Text("kernels", kernels_name).Text("kv", spec));
}

}  // namespace

// `caller` is an address in the host, which finds its ggml. A host calls this once for every load of the file, with the same answer.
ggml_backend_reg_t Init(const void* caller) {
  if (Status status = registered ? CheckSameHost(caller) : Load(caller); !status.ok()) {
    Say("not loaded: " + status.message(), Event("refused"));
    return nullptr;
  }
  if (registered) return &registry;
  registered = true;
  Announce();
  std::atexit([] { caches().SayTotalsAtExit(); });
  LoadNext();
  return &registry;
}

}  // namespace swivel::plugin

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
  return swivel::plugin::Init(__builtin_return_address(0));
}

// The functions that hosts get by name, for programs that have the plugin's handle but no ggml (ctypes, a debugger).
extern "C" __attribute__((visibility("default"))) size_t swivel_report(char* out, size_t capacity) {
  return swivel::plugin::WriteReport(out, capacity);
}
