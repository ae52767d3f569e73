// What the plugin does not serve is refused with a reason, without killing the host and without passing it by in silence.
#include <gtest/gtest.h>

#include <string>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

ggml_backend_buffer_t AllocateSome() { return ggml_backend_buft_alloc_buffer(PluginBufferType(), 1024); }

bool AllocationWorks() { return ggml_backend_buffer_ptr(AllocateSome()) != nullptr; }

TEST(Refusal, QuantizedCacheTensors) {
  Shape shape;
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_F32, GGML_TYPE_BF16}) {
    shape.type = type;
    const std::string said = CaptureStderr([&] { EXPECT_EQ(Cache(PluginBufferType(), shape).buffer, nullptr); });
    EXPECT_NE(said.find(std::string("swivel: -ctk ") + ggml_type_name(type) + " cannot be combined with the plugin"), std::string::npos)
        << said;
    EXPECT_TRUE(AllocationWorks()) << "the refusal is over";
  }
  shape.type = GGML_TYPE_F16;
  EXPECT_NE(Cache(PluginBufferType(), shape).buffer, nullptr);
}

// Plans `build` on our device; says whether the graph could be allocated and what was printed.
std::pair<bool, std::string> Plan(const std::function<void(ggml_context*, ggml_cgraph*)>& build) {
  bool planned = false;
  const std::string said = CaptureStderr([&] {
    planned = Runner(PluginDevice())
                  .Run(
                      build, [] {}, [] {});
  });
  return {planned, said};
}

ggml_tensor* Input(ggml_context* context, ggml_type type, int64_t a, int64_t b = 1, int64_t c = 1) {
  ggml_tensor* tensor = ggml_new_tensor_3d(context, type, a, b, c);
  ggml_set_input(tensor);
  return tensor;
}

TEST(Refusal, TransposedV) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), {});
  const auto [planned, said] = Plan([&](ggml_context* context, ggml_cgraph* graph) {
    // An activation that needs memory of its own.
    ggml_tensor* values = ggml_repeat_4d(context, Input(context, GGML_TYPE_F32, 1, 1), 1, 192, 1, 1);
    ggml_tensor* cells = ggml_reshape_2d(context, cache.v[0], 1, ggml_nelements(cache.v[0]));
    ggml_build_forward_expand(graph, ggml_set_rows(context, cells, values, Input(context, GGML_TYPE_I64, 192)));
  });
  EXPECT_FALSE(planned);
  EXPECT_NE(said.find("swivel: the compressed cache needs flash attention"), std::string::npos) << said;
  EXPECT_TRUE(AllocationWorks());
}

// A host that switches flash attention off after it has planned with it.
TEST(Refusal, MatrixProductOnACacheThatFlashAttentionHasRead) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), {});
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch({}, 4, 0, 0, 1, 1)).empty());
  const auto [planned, said] = Plan([&](ggml_context* context, ggml_cgraph* graph) {
    ggml_tensor* k = ggml_view_2d(context, cache.k[0], 64, 256, cache.k[0]->nb[1], 0);
    ggml_build_forward_expand(graph, ggml_mul_mat(context, k, Input(context, GGML_TYPE_F32, 64, 4)));
  });
  EXPECT_FALSE(planned);
  EXPECT_NE(said.find("needs flash attention"), std::string::npos) << said;
}

TEST(Refusal, LatentAttention) {
  SetKv("turbo4");
  Shape shape;
  shape.width = 128;
  shape.num_kv_heads = 1;
  Cache cache(PluginBufferType(), shape);
  const auto [planned, said] = Plan([&](ggml_context* context, ggml_cgraph* graph) {
    ggml_tensor* k = ggml_view_3d(context, cache.k[0], 128, 256, 1, cache.k[0]->nb[1], cache.k[0]->nb[2], 0);
    ggml_tensor* v = ggml_view_3d(context, cache.k[0], 64, 256, 1, cache.k[0]->nb[1], cache.k[0]->nb[2], 0);
    ggml_build_forward_expand(graph, ggml_flash_attn_ext(context, Input(context, GGML_TYPE_F32, 128, 1, 4), k, v, nullptr, 1, 0, 0));
  });
  EXPECT_FALSE(planned);
  EXPECT_NE(said.find("layer 0 keeps K and V in one tensor"), std::string::npos) << said;
}

TEST(Refusal, HeadWidthThatTheCodecCannotServe) {
  SetKv("q8_0");
  Shape shape;
  shape.width = 80;  // blocks of 32
  Cache cache(PluginBufferType(), shape);
  std::vector<float> out;
  std::string said = CaptureStderr([&] { out = Runner(PluginDevice()).Attend(cache, MakeBatch(shape, 4, 0, 0, 1, 1)); });
  EXPECT_TRUE(out.empty());
  EXPECT_NE(said.find("head width 80"), std::string::npos) << said;
  EXPECT_NE(said.find("SWIVEL_KV"), std::string::npos) << said;

  SetKv("f16");
  Cache served(PluginBufferType(), shape);
  EXPECT_FALSE(Runner(PluginDevice()).Attend(served, MakeBatch(shape, 4, 0, 0, 1, 1)).empty());
}

TEST(Refusal, ANewCacheForgetsWhatAnEarlierGraphWasRefused) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), {});
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch({}, 4, 0, 0, 1, 1)).empty());
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 16, nullptr, true}));
  ggml_tensor* k = ggml_view_2d(context.get(), cache.k[0], 64, 256, cache.k[0]->nb[1], 0);
  ggml_tensor* q = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 64, 4);
  ggml_backend_dev_supports_op(PluginDevice(), ggml_mul_mat(context.get(), k, q));
  EXPECT_NE(Cache(PluginBufferType(), {}).buffer, nullptr);
}

// The memory-fit step plans with KV tensors in a zero-size buffer; the loader probes weights with one.
TEST(Probes, ZeroSizeBuffers) {
  ggml_backend_buffer_ptr dummy(ggml_backend_buft_alloc_buffer(PluginBufferType(), 0));
  ggml_context_ptr context(ggml_init({ggml_tensor_overhead() * 16, nullptr, true}));
  ggml_tensor* root = ggml_new_tensor_3d(context.get(), GGML_TYPE_F16, 192, 256, 1);
  ggml_set_name(root, "cache_k_l0");
  root->buffer = dummy.get();
  ggml_tensor* rows = ggml_new_tensor_2d(context.get(), GGML_TYPE_F32, 192, 4);
  ggml_tensor* indices = ggml_new_tensor_1d(context.get(), GGML_TYPE_I64, 4);
  EXPECT_TRUE(ggml_backend_dev_supports_op(PluginDevice(), ggml_set_rows(context.get(), root, rows, indices)));

  ggml_tensor* weight = ggml_new_tensor_2d(context.get(), GGML_TYPE_F16, 192, 192);
  ggml_set_name(weight, "blk.0.attn_q.weight");
  weight->buffer = dummy.get();
  EXPECT_FALSE(ggml_backend_dev_supports_op(PluginDevice(), ggml_mul_mat(context.get(), weight, rows)));
  weight->buffer = nullptr;
  EXPECT_TRUE(ggml_backend_dev_supports_op(PluginDevice(), ggml_mul_mat(context.get(), weight, rows)));
}

TEST(Bypass, AttentionOverACacheOfTheCpuIsNotTaken) {
  Cache cache(ggml_backend_cpu_buffer_type(), {});
  const Batch batch = MakeBatch({}, 4, 0, 0, 1, 1);
  std::vector<float> out;
  const std::string said = CaptureStderr([&] { out = Runner(PluginDevice()).Attend(cache, batch); });
  EXPECT_FALSE(out.empty()) << "it runs on the CPU";
  const std::string line = "swivel: attention of layer 0 runs over a cache the plugin does not own (CPU)";
  const size_t at = said.find(line);
  ASSERT_NE(at, std::string::npos) << said;
  EXPECT_EQ(said.find("swivel: attention", at + 1), std::string::npos) << "said once";
}

}  // namespace
}  // namespace swivel::plugin_test
