#include "plugin/host.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

namespace swivel::plugin {
namespace {

Host bound;

Status LookUp(const void* caller, Host* host) {
  Dl_info info;
  if (dladdr(caller, &info) == 0) return Status::Unsupported("the program that loaded the plugin cannot be identified");
  // A handle of the caller's own object also searches its dependencies, whatever scope the host was loaded with. The main program has
  // no file name that dlopen accepts; it is the null handle.
  void* object = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
  if (object == nullptr) object = dlopen(nullptr, RTLD_LAZY);
  std::string missing;
#define X(function)                                                                            \
  {                                                                                            \
    void* address = dlsym(object, #function);                                                  \
    if (address == nullptr) address = dlsym(RTLD_DEFAULT, #function);                          \
    if (address == nullptr) missing += (missing.empty() ? "" : ", ") + std::string(#function); \
    std::memcpy(&host->function, &address, sizeof(address));                                   \
  }
  SWIVEL_HOST_FUNCTIONS(X)
#undef X
  // The object stays loaded for as long as we do: it holds the code that called us.
  if (object != nullptr) dlclose(object);
  if (missing.empty()) return {};
  return Status::Unsupported(std::string(info.dli_fname) + " does not export " + missing +
                             " (ggml older than 0.10.0, or linked statically)");
}

Status CheckVersion(const Host& host) {
  int major = 0, minor = 0;
  const char* version = host.ggml_version();
  if (std::sscanf(version, "%d.%d", &major, &minor) != 2)
    return Status::Unsupported(std::string("ggml version '") + version + "' is not understood");
  // 0.10.0 inserted members into the buffer interface without raising the API number.
  if (major == 0 && minor < 10) return Status::Unsupported(std::string("ggml ") + version + " is too old, 0.10.0 is needed");
  return {};
}

Status ProbeLayouts(Host* host) {
  host->cpu = host->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (host->cpu == nullptr) return Status::Unsupported("the host has no CPU backend yet; load the plugin after it");
  // The first member of a registry is the API version that its host was built with.
  host->api_version = host->ggml_backend_dev_backend_reg(host->cpu)->api_version;
  if (host->api_version != 2 && host->api_version != 3) {
    return Status::Unsupported("backend API " + std::to_string(host->api_version) + " of ggml " + host->ggml_version() +
                               " is not known; known are 2 and 3");
  }
  // ggml_tensor_overhead = sizeof(ggml_object) + sizeof(ggml_tensor), and ggml_object has 32 bytes in all versions.
  if (host->ggml_tensor_overhead() != sizeof(ggml_tensor) + 32) {
    return Status::Unsupported("the layout of ggml_tensor in ggml " + std::string(host->ggml_version()) + " is not known");
  }
  return {};
}

Status FindOps(Host* host) {
  struct {
    const char* name;
    int* id;
  } wanted[] = {{"NONE", &host->op.none},
                {"VIEW", &host->op.view},
                {"RESHAPE", &host->op.reshape},
                {"PERMUTE", &host->op.permute},
                {"TRANSPOSE", &host->op.transpose},
                {"SET_ROWS", &host->op.set_rows},
                {"FLASH_ATTN_EXT", &host->op.flash_attn_ext},
                {"MUL_MAT", &host->op.mul_mat},
                {"ROPE", &host->op.rope},
                {"CUSTOM", &host->op.custom}};
  // CUSTOM comes after all others; stopping there keeps within the table of a host that has fewer ops than our header.
  for (int id = 0; id < GGML_OP_COUNT && host->op.custom < 0; ++id) {
    const char* name = host->ggml_op_name(static_cast<ggml_op>(id));
    for (auto& entry : wanted) {
      if (std::strcmp(name, entry.name) == 0) *entry.id = id;
    }
  }
  for (const auto& entry : wanted) {
    if (*entry.id < 0) return Status::Unsupported(std::string("the host's ggml has no operation ") + entry.name);
  }
  return {};
}

}  // namespace

Status BindHost(const void* caller) {
  Host found;
  if (Status status = LookUp(caller, &found); !status.ok()) return status;
  if (Status status = CheckVersion(found); !status.ok()) return status;
  if (Status status = ProbeLayouts(&found); !status.ok()) return status;
  if (Status status = FindOps(&found); !status.ok()) return status;
  bound = found;
  return {};
}

const Host& host() { return bound; }

}  // namespace swivel::plugin
