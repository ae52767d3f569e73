// A backend (ggml's word for an execution queue): a CPU backend of the host plus our graph runner.
#ifndef SWIVEL_PLUGIN_BACKEND_H_
#define SWIVEL_PLUGIN_BACKEND_H_

#include "ggml-backend-impl.h"

namespace swivel::plugin {

// Null when the host cannot give us a CPU backend.
ggml_backend_t NewBackend(ggml_backend_dev_t device);

// What get_proc_address hands out under ggml's names; both act on the CPU backend inside.
void SetNumThreads(ggml_backend_t backend, int num_threads);
void SetAbortCallback(ggml_backend_t backend, ggml_abort_callback callback, void* data);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_BACKEND_H_
