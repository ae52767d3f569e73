// The buffer type "SWIVEL": sizes and allocations. Its vtable is the one structure whose layout differs between hosts.
#ifndef SWIVEL_PLUGIN_BUFFER_TYPE_H_
#define SWIVEL_PLUGIN_BUFFER_TYPE_H_

#include "cache/spec.h"
#include "ggml-backend-impl.h"

namespace swivel::plugin {

ggml_backend_buffer_type_t OurBufferType();

// Lays the vtable out for the host's API version. Precondition: BindHost has accepted that version.
void InitBufferType(ggml_backend_dev_t device);

// Address space that the stores of a cache tensor will take, an estimate like the size that the host is told.
size_t StoreBytes(const CacheSpec& spec, const ggml_tensor* root);

// A root has been placed in its buffer. Hosts ask for its size once more just before; that does not announce another cache.
void CacheTensorPlaced();

// The graph of a context has been planned on this thread: the next cache that is allocated here belongs to another context.
void CloseContextOfThread();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_BUFFER_TYPE_H_
