#include "plugin/host.h"

#include <dlfcn.h>

#include <cstdio>
#include <cstring>
#include <string>

#include "plugin/host_probe.h"

namespace swivel::plugin {
namespace {

Host bound;

// Where the functions of a host are looked up.
class HostObject {
 public:
  // A handle of the caller's own object also searches its dependencies, whatever scope the host was loaded with. The main program has no
  // file name that dlopen accepts; it is the null handle.
  explicit HostObject(const void* caller) {
    Dl_info info;
    if (dladdr(caller, &info) == 0) return;
    name_ = info.dli_fname;
    handle_ = dlopen(info.dli_fname, RTLD_LAZY | RTLD_NOLOAD);
    if (handle_ == nullptr) handle_ = dlopen(nullptr, RTLD_LAZY);
  }
  // The object stays loaded for as long as we do: it holds the code that called us.
  ~HostObject() {
    if (handle_ != nullptr) dlclose(handle_);
  }
  HostObject(const HostObject&) = delete;
  HostObject& operator=(const HostObject&) = delete;

  const std::string& name() const { return name_; }  // empty: the caller cannot be identified
  void* Find(const char* function) const { return handle_ != nullptr ? dlsym(handle_, function) : nullptr; }

 private:
  std::string name_;
  void* handle_ = nullptr;
};

// The file that holds an address, for messages.
std::string FileOf(const void* address) {
  Dl_info info;
  return dladdr(address, &info) != 0 ? info.dli_fname : "an unknown file";
}

Status LookUp(const HostObject& object, Host* host) {
  if (object.name().empty()) return Status::Unsupported("the program that loaded the plugin cannot be identified");
  std::string missing, elsewhere;
#define X(function)                                                 \
  {                                                                 \
    void* address = object.Find(#function);                         \
    if (address == nullptr) {                                       \
      address = dlsym(RTLD_DEFAULT, #function);                     \
      std::string& list = address == nullptr ? missing : elsewhere; \
      list += (list.empty() ? "" : ", ") + std::string(#function);  \
    }                                                               \
    std::memcpy(&host->function, &address, sizeof(address));        \
  }
  SWIVEL_HOST_FUNCTIONS(X)
#undef X
  if (!missing.empty()) {
    return Status::Unsupported(object.name() + " does not export " + missing + " (ggml older than 0.10.0, or linked statically)");
  }
  // What the caller lacks may be taken from the global scope only if that is the same ggml.
  const void* own = object.Find("ggml_nbytes");
  const void* global = dlsym(RTLD_DEFAULT, "ggml_nbytes");
  if (!elsewhere.empty() && own != nullptr && own != global) {
    return Status::Unsupported("there are two ggml in this process, and " + object.name() + " does not export " + elsewhere +
                               " itself; the other one is " + FileOf(global));
  }
  return {};
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

Status ReadApi(Host* host) {
  host->cpu = host->ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  if (host->cpu == nullptr) return Status::Unsupported("the host has no CPU backend yet; load the plugin after it");
  // The first member of a registry is the API version that its host was built with.
  host->api_version = host->ggml_backend_dev_backend_reg(host->cpu)->api_version;
  if (host->api_version < 2) {
    return Status::Unsupported("backend API " + std::to_string(host->api_version) + " of ggml " + host->ggml_version() +
                               " is too old; 2 and 3 are known");
  }
  // ggml_tensor_overhead = sizeof(ggml_object) + sizeof(ggml_tensor), and ggml_object has 32 bytes in all versions.
  if (host->ggml_tensor_overhead() != sizeof(ggml_tensor) + 32) {
    return Status::Unsupported("the layout of ggml_tensor in ggml " + std::string(host->ggml_version()) + " is not known: it takes " +
                               std::to_string(host->ggml_tensor_overhead() - 32) + " bytes instead of " +
                               std::to_string(sizeof(ggml_tensor)));
  }
  return {};
}

// Known API numbers must have the tables that they are known for; an unknown one is served when its tables are those of a known one.
Status CheckTables(const HostObject& object, Host* host) {
  const auto find = [&object](const char* name) { return object.Find(name); };
  const std::string api = "backend API " + std::to_string(host->api_version) + " of ggml " + host->ggml_version();
  StatusOr<TableGeneration> found = ProbeTables(find);
  if (!found.ok()) return Status::Unsupported(api + ": " + found.status().message());
  host->buffer_type_lists = *found == TableGeneration::kApi3;
  host->newer_than_known = host->api_version > 3;
  if (!host->newer_than_known && host->buffer_type_lists != (host->api_version == 3)) {
    return Status::Unsupported(api + " has the buffer type of API " + (host->buffer_type_lists ? "3" : "2"));
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
  const HostObject object(caller);
  Host found;
  if (Status status = LookUp(object, &found); !status.ok()) return status;
  if (Status status = CheckVersion(found); !status.ok()) return status;
  if (Status status = ReadApi(&found); !status.ok()) return status;
  if (Status status = CheckTables(object, &found); !status.ok()) return status;
  if (Status status = FindOps(&found); !status.ok()) return status;
  bound = found;
  return {};
}

Status CheckSameHost(const void* caller) {
  const HostObject object(caller);
  Host other;
  if (Status status = LookUp(object, &other); !status.ok()) return status;
  // The registry is where a second ggml would look for us.
  if (other.ggml_backend_reg_by_name == bound.ggml_backend_reg_by_name && other.ggml_nbytes == bound.ggml_nbytes) return {};
  return Status::Unsupported("the plugin serves the ggml of " + FileOf(reinterpret_cast<const void*>(bound.ggml_backend_reg_by_name)) +
                             " in this process; that of " + FileOf(reinterpret_cast<const void*>(other.ggml_backend_reg_by_name)) +
                             " is a second one and needs a process of its own");
}

const Host& host() { return bound; }

}  // namespace swivel::plugin
