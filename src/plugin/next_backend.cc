#include "plugin/next_backend.h"

#include <dlfcn.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <system_error>

#include "plugin/host.h"
#include "plugin/log.h"

namespace swivel::plugin {
namespace {

bool IsThisPlugin(const std::string& path) {
  Dl_info own;
  std::error_code error;
  return dladdr(reinterpret_cast<const void*>(&LoadNext), &own) != 0 && std::filesystem::equivalent(path, own.dli_fname, error);
}

void SayFailure(const std::string& path, const std::string& reason) {
  Say("SWIVEL_NEXT=" + path + " is not loaded: " + reason, Event("next_failed").Text("path", path));
}

}  // namespace

void LoadNext() {
  const char* variable = std::getenv("SWIVEL_NEXT");
  if (variable == nullptr || *variable == '\0') return;
  const std::string path = variable;
  std::error_code error;
  // A bare name is looked for by the dynamic loader.
  if (path.find('/') != std::string::npos && !std::filesystem::exists(path, error))
    return SayFailure(path, "there is no such file; it names the file of a ggml backend");
  if (IsThisPlugin(path)) return SayFailure(path, "it names this plugin; it is for another backend");
  // The host gives its own reason (a missing library, another backend API) in the line before.
  ggml_backend_reg_t next = host().ggml_backend_load(path.c_str());
  if (next == nullptr) return SayFailure(path, "the host's ggml refused it, see its line above");
  const std::string name = next->iface.get_name(next);
  const auto devices = static_cast<int64_t>(next->iface.get_device_count(next));
  Say("backend " + name + " with " + std::to_string(devices) + " device" + (devices == 1 ? "" : "s") +
          " is loaded from SWIVEL_NEXT=" + path,
      Event("next_loaded").Text("path", path).Text("name", name).Number("devices", devices));
}

}  // namespace swivel::plugin
