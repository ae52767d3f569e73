// FLASH_ATTN_EXT on a packed cache: describes the node to the attention kernels.
#ifndef SWIVEL_PLUGIN_FLASH_ATTENTION_H_
#define SWIVEL_PLUGIN_FLASH_ATTENTION_H_

#include <cstddef>

#include "calibrate/self_calibration.h"
#include "ggml.h"
#include "kernel/attend/attend.h"
#include "plugin/kv_tensor.h"

namespace swivel::plugin {

// Describes the node, whose K and V views start at `k_offset` and `v_offset` in the f16 images of `k` and `v`. False: a form that is not
// served here (the shadow path then is). Precondition: both are packed and the node's data pointers are set.
bool DescribeAttention(const ggml_tensor* node, const KvTensor& k, size_t k_offset, const KvTensor& v, size_t v_offset, AttendArgs* args);

struct AttentionTask {
  AttendPlan plan;                     // made and bound
  SelfCalibration* capture = nullptr;  // wants the queries, or null
  KvBuffer* buffer = nullptr;          // whose counters count it
};

// One thread's share; a ggml_custom_op_t whose userdata is an AttentionTask.
void RunAttention(ggml_tensor* target, int thread, int num_threads, void* task);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_FLASH_ATTENTION_H_
