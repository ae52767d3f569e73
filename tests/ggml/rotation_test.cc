// The rotation that llama.cpp applies to quantised caches, computed by ggml with llama.cpp's matrix, against our frames.
#include "math/rotation.h"

#include <ggml-alloc.h>
#include <ggml-backend.h>
#include <ggml.h>
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "codec/test_rows.h"

namespace swivel {
namespace {

// The recursion of llama.cpp's ggml_gen_hadamard (src/llama-kv-cache.cpp), normalised.
std::vector<float> LlamaHadamard(int n) {
  std::vector<float> data(static_cast<size_t>(n) * n);
  data[0] = static_cast<float>(1.0 / std::sqrt(static_cast<float>(n)));
  for (int s = 1; s < n; s *= 2) {
    for (int i = 0; i < s; ++i) {
      for (int j = 0; j < s; ++j) {
        const float value = data[i * n + j];
        data[(i + s) * n + j] = value;
        data[i * n + j + s] = value;
        data[(i + s) * n + j + s] = -value;
      }
    }
  }
  return data;
}

// ggml_mul_mat(rot, row in blocks of n) on ggml's CPU backend, as llama_mul_mat_hadamard builds it.
std::vector<float> RotateByGgml(ggml_backend_t backend, const std::vector<float>& row, int n) {
  ggml_init_params params = {};
  params.mem_size = 16 * ggml_tensor_overhead() + ggml_graph_overhead();
  params.no_alloc = true;
  ggml_context* context = ggml_init(params);
  ggml_tensor* matrix = ggml_new_tensor_2d(context, GGML_TYPE_F32, n, n);
  ggml_tensor* input = ggml_new_tensor_2d(context, GGML_TYPE_F32, n, static_cast<int64_t>(row.size()) / n);
  ggml_tensor* output = ggml_mul_mat(context, matrix, input);
  ggml_cgraph* graph = ggml_new_graph(context);
  ggml_build_forward_expand(graph, output);
  ggml_backend_buffer_t buffer = ggml_backend_alloc_ctx_tensors(context, backend);
  const std::vector<float> hadamard = LlamaHadamard(n);
  ggml_backend_tensor_set(matrix, hadamard.data(), 0, hadamard.size() * sizeof(float));
  ggml_backend_tensor_set(input, row.data(), 0, row.size() * sizeof(float));
  EXPECT_EQ(ggml_backend_graph_compute(backend, graph), GGML_STATUS_SUCCESS);
  std::vector<float> rotated(row.size());
  ggml_backend_tensor_get(output, rotated.data(), 0, rotated.size() * sizeof(float));
  ggml_backend_buffer_free(buffer);
  ggml_free(context);
  return rotated;
}

TEST(GgmlRotation, FramesAreLlamasHadamard) {
  // By type, so that it works with ggml's CPU backend linked in or loaded from a file.
  ggml_backend_load_all();
  ggml_backend_t backend = ggml_backend_init_by_type(GGML_BACKEND_DEVICE_TYPE_CPU, nullptr);
  ASSERT_NE(backend, nullptr);
  Random random(95);
  for (int width : {64, 128, 192, 256, 320, 512, 576}) {
    // Keys: the largest power of two that divides the width (from 64 on); values: 64.
    for (Frame frame : {Frame::kHadamard, Frame::kHadamard64}) {
      const int n = frame == Frame::kHadamard64 ? 64 : width & -width;
      ASSERT_EQ(HadamardBlock(frame, width), n);
      const std::vector<float> row = test_rows::GaussianRow(random, width);
      const std::vector<float> theirs = RotateByGgml(backend, row, n);
      std::vector<float> ours = row;
      Rotate(frame, ours.data(), width);
      for (int i = 0; i < width; ++i) ASSERT_NEAR(ours[i], theirs[i], 2e-6 * test_rows::Norm(row)) << "width " << width << ", seed 95";
    }
  }
  ggml_backend_free(backend);
}

}  // namespace
}  // namespace swivel
