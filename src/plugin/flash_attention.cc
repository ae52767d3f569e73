#include "plugin/flash_attention.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

// The view must show whole heads of consecutive cells from cell 0 of a stream on, as llama.cpp's get_k and get_v make them.
bool ShowsStreams(const ggml_tensor* view, const KvTensor& tensor, size_t offset, int64_t num_streams) {
  const size_t head_bytes = static_cast<size_t>(tensor.width()) * 2;
  return view->ne[0] == tensor.width() && view->ne[1] <= tensor.num_cells() && view->ne[2] == tensor.num_heads() &&
         view->ne[3] == num_streams && view->nb[0] == 2 && view->nb[1] == tensor.row_bytes() &&
         (view->ne[2] == 1 || view->nb[2] == head_bytes) && (view->ne[3] == 1 || view->nb[3] == tensor.stream_bytes()) &&
         offset % tensor.stream_bytes() == 0 && offset + static_cast<size_t>(num_streams) * tensor.stream_bytes() <= tensor.nominal_bytes();
}

bool FitsMask(const ggml_tensor* mask, const AttendArgs& args) {
  return mask->type == GGML_TYPE_F16 && mask->nb[0] == 2 && mask->ne[0] >= args.num_cells && mask->ne[1] >= args.num_queries &&
         (mask->ne[2] == 1 || mask->ne[2] == args.num_heads) && (mask->ne[3] == 1 || mask->ne[3] == args.num_streams);
}

}  // namespace

bool DescribeAttention(const ggml_tensor* node, const KvTensor& k, size_t k_offset, const KvTensor& v, size_t v_offset, AttendArgs* args) {
  const ggml_tensor* q = node->src[0];
  const ggml_tensor* mask = node->src[3];
  const ggml_tensor* sinks = node->src[4];
  const int64_t num_streams = q->ne[3];
  if (!ShowsStreams(node->src[1], k, k_offset, num_streams) || !ShowsStreams(node->src[2], v, v_offset, num_streams)) return false;
  if (k_offset / k.stream_bytes() != v_offset / v.stream_bytes() || node->src[1]->ne[1] != node->src[2]->ne[1]) return false;
  if (k.num_heads() != v.num_heads() || q->ne[2] % k.num_heads() != 0) return false;
  if (q->type != GGML_TYPE_F32 || q->nb[0] != sizeof(float) || q->ne[0] != k.width()) return false;
  if (node->type != GGML_TYPE_F32 || node->nb[0] != sizeof(float) || node->ne[0] != v.width()) return false;

  // Exact rows are read in step: both sides are staged or none is.
  if (k.layer_cache() != v.layer_cache()) return false;
  if (k.layer_cache() != nullptr) {
    k.layer_cache()->Describe(args);
  } else {
    args->k = k.row_store()->View();
    args->v = v.row_store()->View();
  }
  args->first_stream = static_cast<int>(k_offset / k.stream_bytes());
  args->num_streams = static_cast<int>(num_streams);
  args->num_heads = static_cast<int>(q->ne[2]);
  args->num_kv_heads = k.num_heads();
  args->num_queries = static_cast<int>(q->ne[1]);
  args->num_cells = node->src[1]->ne[1];

  args->q = static_cast<const float*>(q->data);
  args->q_query_stride = q->nb[1];
  args->q_head_stride = q->nb[2];
  args->q_stream_stride = q->nb[3];
  // The output is [width, heads, queries, streams]: heads and queries have changed places against q.
  args->out = static_cast<float*>(node->data);
  args->out_head_stride = node->nb[1];
  args->out_query_stride = node->nb[2];
  args->out_stream_stride = node->nb[3];

  if (mask != nullptr) {
    if (!FitsMask(mask, *args)) return false;
    args->mask = static_cast<const uint16_t*>(mask->data);
    args->mask_query_stride = mask->nb[1];
    args->mask_head_stride = mask->ne[2] == 1 ? 0 : mask->nb[2];
    args->mask_stream_stride = mask->ne[3] == 1 ? 0 : mask->nb[3];
  }
  if (sinks != nullptr) {
    if (sinks->type != GGML_TYPE_F32 || sinks->nb[0] != sizeof(float) || sinks->ne[0] != q->ne[2]) return false;
    args->sinks = static_cast<const float*>(sinks->data);
  }
  float params[3];  // op_params: scale, max_bias, logit_softcap; what follows (precision, a hint of visible cells) changes no result
  std::memcpy(params, node->op_params, sizeof(params));
  args->scale = params[0];
  args->max_bias = params[1];
  args->logit_softcap = params[2];
  return true;
}

void RunAttention(ggml_tensor*, int thread, int num_threads, void* userdata) {
  auto& task = *static_cast<AttentionTask*>(userdata);
  AttendPlan& plan = task.plan;
  if (thread == 0 && task.capture != nullptr) task.capture->Add(plan.args);
  // The plan has scratch for the threads that the host announced; more would be a fault of the host, and they have nothing to do.
  const int team = std::min(num_threads, plan.max_threads);
  if (thread < team) plan.Run(kernels(), thread, team);
}

}  // namespace swivel::plugin
