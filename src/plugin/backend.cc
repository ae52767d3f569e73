#include "plugin/backend.h"

#include <algorithm>

#include "plugin/graph.h"
#include "plugin/host.h"

namespace swivel::plugin {
namespace {

struct Backend {
  explicit Backend(ggml_backend_t host_cpu) : cpu(host_cpu), runner(host_cpu) {}
  ggml_backend_t cpu;
  GraphRunner runner;
};

Backend* Context(ggml_backend_t backend) { return static_cast<Backend*>(backend->context); }

const char* Name(ggml_backend_t) { return "SWIVEL"; }

void Free(ggml_backend_t backend) {
  host().ggml_backend_free(Context(backend)->cpu);
  delete Context(backend);
  delete backend;
}

ggml_status Compute(ggml_backend_t backend, ggml_cgraph* graph) { return Context(backend)->runner.Compute(graph); }

uint8_t guid[16] = {0x73, 0x77, 0x69, 0x76, 0x65, 0x6c, 0x2d, 0x6b, 0x76, 0x2d, 0x63, 0x61, 0x63, 0x68, 0x65, 0x01};

}  // namespace

ggml_backend_t NewBackend(ggml_backend_dev_t device) {
  ggml_backend_t cpu = host().ggml_backend_dev_init(host().cpu, nullptr);
  if (cpu == nullptr) return nullptr;
  ggml_backend_i calls = {};
  calls.get_name = Name;
  calls.free = Free;
  calls.graph_compute = Compute;
  // graph_optimize stays null: its signature has changed between hosts of one API version.
  auto* backend = new ggml_backend{&guid, calls, device, new Backend(cpu)};
  SetNumThreads(backend, GGML_DEFAULT_N_THREADS);
  return backend;
}

void SetNumThreads(ggml_backend_t backend, int num_threads) {
  Context(backend)->runner.SetNumThreads(std::max(1, num_threads));
  if (auto* set = host().CpuFunction<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads")) set(Context(backend)->cpu, num_threads);
}

void SetAbortCallback(ggml_backend_t backend, ggml_abort_callback callback, void* data) {
  auto* set = host().CpuFunction<ggml_backend_set_abort_callback_t>("ggml_backend_set_abort_callback");
  if (set != nullptr) set(Context(backend)->cpu, callback, data);
}

}  // namespace swivel::plugin
