// The ggml of the program that loaded us, reached without linking it.
//
// Hosts differ in how they carry ggml: shared libraries in or out of the global scope, one Python extension that holds everything,
// unversioned sonames. A plugin with an undefined ggml symbol loads only in some of them, so there is none: the functions are looked up
// at run time in the object that called ggml_backend_init. Struct layouts and op numbers are probed, and a host that is not known is
// refused before anything is registered (host_probe.h).
#ifndef SWIVEL_PLUGIN_HOST_H_
#define SWIVEL_PLUGIN_HOST_H_

#include "base/status.h"
#include "ggml-backend-impl.h"
#include "ggml.h"

namespace swivel::plugin {

#define SWIVEL_HOST_FUNCTIONS(X)       \
  X(ggml_backend_buffer_init)          \
  X(ggml_backend_dev_backend_reg)      \
  X(ggml_backend_dev_by_type)          \
  X(ggml_backend_dev_init)             \
  X(ggml_backend_dev_memory)           \
  X(ggml_backend_dev_supports_buft)    \
  X(ggml_backend_dev_supports_op)      \
  X(ggml_backend_free)                 \
  X(ggml_backend_graph_compute)        \
  X(ggml_backend_load)                 \
  X(ggml_backend_reg_by_name)          \
  X(ggml_backend_reg_get_proc_address) \
  X(ggml_fp32_to_fp16_row)             \
  X(ggml_nbytes)                       \
  X(ggml_op_name)                      \
  X(ggml_tensor_overhead)              \
  X(ggml_type_name)                    \
  X(ggml_version)

struct Host {
#define X(function) decltype(&::function) function = nullptr;
  SWIVEL_HOST_FUNCTIONS(X)
#undef X

  ggml_backend_dev_t cpu = nullptr;  // the host's CPU device: it computes everything that is not ours
  int api_version = 0;               // what our registry must say
  bool buffer_type_lists = false;    // ggml_backend_buffer_type_i has alloc_buffer_n and get_alloc_size_n (API 3)
  bool newer_than_known = false;     // another API number, whose tables are those of API 2 or 3 by probe

  // Op numbers of this host, found by name: they move between versions.
  struct {
    int none = -1, view = -1, reshape = -1, permute = -1, transpose = -1;
    int set_rows = -1, flash_attn_ext = -1, mul_mat = -1, rope = -1, custom = -1;
  } op;

  // Ops that only rename memory; the host never executes them.
  bool IsViewOp(const ggml_tensor* tensor) const {
    const int id = static_cast<int>(tensor->op);
    return id == op.none || id == op.view || id == op.reshape || id == op.permute || id == op.transpose;
  }

  // A function that the CPU backend offers by name, or null.
  template <class Function>
  Function CpuFunction(const char* name) const {
    return reinterpret_cast<Function>(ggml_backend_reg_get_proc_address(ggml_backend_dev_backend_reg(cpu), name));
  }
};

// Fills host() from the object that holds the address `caller`. Errors: kUnsupported with what is missing or unknown.
Status BindHost(const void* caller);

// kUnsupported when `caller` belongs to another ggml than the bound one: two can live in a process (two Python packages, say), but one copy
// of the plugin serves one.
Status CheckSameHost(const void* caller);

// The bound host. Precondition: BindHost has succeeded.
const Host& host();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_HOST_H_
