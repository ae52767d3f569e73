// A ggml backend with one device that refuses everything: what SWIVEL_NEXT loads in tests.
#include "ggml-backend-impl.h"

namespace {

ggml_backend_reg registry;
ggml_backend_device device;

}  // namespace

extern "C" __attribute__((visibility("default"))) ggml_backend_reg_t ggml_backend_init(void) {
  device.iface.get_name = [](ggml_backend_dev_t) { return "DUMMY"; };
  device.iface.get_description = [](ggml_backend_dev_t) { return "computes nothing"; };
  device.iface.get_memory = [](ggml_backend_dev_t, size_t* free, size_t* total) { *free = *total = 0; };
  device.iface.get_type = [](ggml_backend_dev_t) { return GGML_BACKEND_DEVICE_TYPE_ACCEL; };
  device.iface.supports_op = [](ggml_backend_dev_t, const ggml_tensor*) { return false; };
  device.iface.supports_buft = [](ggml_backend_dev_t, ggml_backend_buffer_type_t) { return false; };
  device.reg = &registry;
  registry.api_version = GGML_BACKEND_API_VERSION;
  registry.iface.get_name = [](ggml_backend_reg_t) { return "DUMMY"; };
  registry.iface.get_device_count = [](ggml_backend_reg_t) -> size_t { return 1; };
  registry.iface.get_device = [](ggml_backend_reg_t, size_t) { return &device; };
  return &registry;
}
