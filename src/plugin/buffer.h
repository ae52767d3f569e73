// Buffers of our type: ordinary memory, except that reads and writes of KV tensors go to their packed rows.
#ifndef SWIVEL_PLUGIN_BUFFER_H_
#define SWIVEL_PLUGIN_BUFFER_H_

#include <cstddef>

#include "ggml-backend-impl.h"

namespace swivel::plugin {

// Reserves `size` bytes that cost memory only where they are written. `context`: number of the llama context whose KV cache this is, 0
// for every other buffer. Null when the address space cannot be had.
ggml_backend_buffer_t NewBuffer(ggml_backend_buffer_type_t type, size_t size, int context);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_BUFFER_H_
