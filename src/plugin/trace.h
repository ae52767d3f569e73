// Text for SWIVEL_LOG=1: what a graph does to KV tensors.
#ifndef SWIVEL_PLUGIN_TRACE_H_
#define SWIVEL_PLUGIN_TRACE_H_

#include "ggml.h"

namespace swivel::plugin {

// Traces the operation of a node with the shapes of its operands. Numbers in names are dropped, so that all layers make one line.
void TraceNode(const ggml_tensor* node);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_TRACE_H_
