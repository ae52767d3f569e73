#include "plugin/backend.h"

#include <algorithm>
#include <new>

#include "ggml-cpu.h"
#include "plugin/graph.h"
#include "plugin/host.h"
#include "plugin/log.h"

namespace swivel::plugin {
namespace {

// Threads that live as long as the backend. A CPU backend without a pool starts and joins its threads for every graph; hosts attach their
// own pool to their own CPU backend only.
class ThreadPool {
 public:
  explicit ThreadPool(ggml_backend_t cpu)
      : cpu_(cpu),
        new_(host().CpuFunction<decltype(&ggml_threadpool_new)>("ggml_threadpool_new")),
        free_(host().CpuFunction<decltype(&ggml_threadpool_free)>("ggml_threadpool_free")),
        attach_(host().CpuFunction<decltype(&ggml_backend_cpu_set_threadpool)>("ggml_backend_cpu_set_threadpool")) {}
  ~ThreadPool() { Replace(nullptr); }

  void Reserve(int num_threads) {
    if (num_threads <= num_threads_ || new_ == nullptr || free_ == nullptr || attach_ == nullptr) return;
    ggml_threadpool_params params = {};
    params.n_threads = num_threads;
    params.prio = GGML_SCHED_PRIO_NORMAL;
    // Workers spin for the few milliseconds between two tokens and then sleep. ggml's default of 50 would spin through a second context's
    // whole graph.
    params.poll = 1;
    Replace(new_(&params));
    num_threads_ = num_threads;
  }

 private:
  void Replace(ggml_threadpool_t pool) {
    if (pool_ == nullptr && pool == nullptr) return;
    attach_(cpu_, pool);
    if (pool_ != nullptr) free_(pool_);
    pool_ = pool;
  }

  ggml_backend_t cpu_;
  decltype(&ggml_threadpool_new) new_;
  decltype(&ggml_threadpool_free) free_;
  decltype(&ggml_backend_cpu_set_threadpool) attach_;
  ggml_threadpool_t pool_ = nullptr;
  int num_threads_ = 1;
};

struct Backend {
  explicit Backend(ggml_backend_t host_cpu) : cpu(host_cpu), pool(host_cpu), runner(host_cpu) {}
  ggml_backend_t cpu;
  ThreadPool pool;
  GraphRunner runner;
};

Backend* Context(ggml_backend_t backend) { return static_cast<Backend*>(backend->context); }

const char* Name(ggml_backend_t) { return "SWIVEL"; }

void Free(ggml_backend_t backend) {
  ggml_backend_t cpu = Context(backend)->cpu;
  delete Context(backend);  // detaches the thread pool
  host().ggml_backend_free(cpu);
  delete backend;
}

// Hosts are C at this place: an exception would end them.
ggml_status Compute(ggml_backend_t backend, ggml_cgraph* graph) try {
  return Context(backend)->runner.Compute(graph);
} catch (const std::bad_alloc&) {
  Say("out of memory while a graph was prepared");
  return GGML_STATUS_ALLOC_FAILED;
}

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
  // Most hosts set the number before the first graph; until then no threads are started.
  Context(backend)->runner.SetNumThreads(GGML_DEFAULT_N_THREADS);
  return backend;
}

void SetNumThreads(ggml_backend_t backend, int num_threads) {
  Context(backend)->runner.SetNumThreads(std::max(1, num_threads));
  Context(backend)->pool.Reserve(num_threads);
  if (auto* set = host().CpuFunction<ggml_backend_set_n_threads_t>("ggml_backend_set_n_threads")) set(Context(backend)->cpu, num_threads);
}

void SetAbortCallback(ggml_backend_t backend, ggml_abort_callback callback, void* data) {
  auto* set = host().CpuFunction<ggml_backend_set_abort_callback_t>("ggml_backend_set_abort_callback");
  if (set != nullptr) set(Context(backend)->cpu, callback, data);
}

}  // namespace swivel::plugin
