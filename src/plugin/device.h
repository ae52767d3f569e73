// The device "SWIVEL": the CPU, presented as a GPU that owns the KV cache.
#ifndef SWIVEL_PLUGIN_DEVICE_H_
#define SWIVEL_PLUGIN_DEVICE_H_

#include "ggml-backend-impl.h"

namespace swivel::plugin {

void InitDevice(ggml_backend_reg_t registry);
ggml_backend_dev_t OurDevice();

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_DEVICE_H_
