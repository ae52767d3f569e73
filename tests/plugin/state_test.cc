// What llama.cpp does to the memory of a cache: save, restore, copy, clear; and what the plugin reports about it.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

constexpr size_t kRow = 64 * 3 * 2;  // bytes of a row of the default shape

class State : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Codecs, State, testing::Values("f16", "turbo3", "q4_0"));

TEST_P(State, RestoringWhatWasSavedChangesNothing) {
  SetKv(GetParam());
  Cache cache(PluginBufferType(), {});
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch({}, 100, 0, 0, 1, 1)).empty());
  Batch next = MakeBatch({}, 1, 100, 0, 1, 2);
  const auto expected = runner.Attend(cache, next);
  const auto saved = GetBytes(cache.k_streams[0][0]);
  for (int round = 0; round < 3; ++round) ggml_backend_tensor_set(cache.k_streams[0][0], saved.data(), 0, saved.size());
  EXPECT_EQ(GetBytes(cache.k_streams[0][0]), saved);
  EXPECT_EQ(runner.Attend(cache, next), expected);
}

TEST_P(State, RowsMoveToAnotherPlace) {
  SetKv(GetParam());
  Shape shape;
  shape.num_streams = 2;
  Cache cache(PluginBufferType(), shape);
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch(shape, 100, 0, 0, 2, 1)).empty());
  const auto saved = GetBytes(cache.v_streams[1][0]);
  // One run of whole rows, as a state restore writes them, into the other stream at another cell.
  ggml_backend_tensor_set(cache.v_streams[1][1], saved.data() + 5 * kRow, 9 * kRow, 20 * kRow);
  const auto there = GetBytes(cache.v_streams[1][1]);
  const auto half = [&](const std::vector<uint8_t>& bytes, size_t at) {
    ggml_fp16_t value;
    std::memcpy(&value, &bytes[at], sizeof(value));
    return ggml_fp16_to_fp32(value);
  };
  // The f16 image is encoded once more; rows keep their direction.
  double dot = 0, a = 0, b = 0;
  for (size_t i = 0; i < 20 * kRow; i += 2) {
    const double x = half(saved, 5 * kRow + i), y = half(there, 9 * kRow + i);
    dot += x * y, a += x * x, b += y * y;
  }
  EXPECT_GT(dot / std::sqrt(a * b), 0.97);
}

TEST(StateCalls, PartsOfRowsAreReadAndWritten) {
  SetKv("f16");
  Cache cache(PluginBufferType(), {});
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch({}, 10, 0, 0, 1, 1)).empty());
  auto expected = GetBytes(cache.k[1]);
  const ggml_fp16_t value = ggml_fp32_to_fp16(1.5f);
  std::memcpy(&expected[3 * kRow + 10], &value, 2);
  ggml_backend_tensor_set(cache.k[1], &value, 3 * kRow + 10, 2);
  EXPECT_EQ(GetBytes(cache.k[1]), expected);
  std::vector<uint8_t> part(kRow + 6);
  ggml_backend_tensor_get(cache.k[1], part.data(), 2 * kRow + 4, part.size());
  EXPECT_TRUE(std::equal(part.begin(), part.end(), expected.begin() + static_cast<std::ptrdiff_t>(2 * kRow + 4)));
}

TEST(StateCalls, StreamsAreCopiedPacked) {
  SetKv("turbo2");
  Shape shape;
  shape.num_streams = 3;
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 60, 0, 0, 1, 1)).empty());
  for (size_t layer = 0; layer < 2; ++layer) {
    ggml_backend_tensor_copy(cache.k_streams[layer][0], cache.k_streams[layer][2]);
    ggml_backend_tensor_copy(cache.v_streams[layer][0], cache.v_streams[layer][2]);
  }
  EXPECT_EQ(GetBytes(cache.k_streams[1][2]), GetBytes(cache.k_streams[1][0]));
  // turbo2 is far from idempotent: a copy through f16 would not give the same bits.
  Batch first = MakeBatch(shape, 1, 60, 0, 1, 2);
  Batch third = first;
  third.first_stream = 2;
  EXPECT_EQ(runner.Attend(cache, first), runner.Attend(cache, third));
}

TEST(StateCalls, ClearGivesZerosAndMemoryBack) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), {});
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch({}, 200, 0, 0, 1, 1)).empty());
  EXPECT_GT(nlohmann::json::parse(Report())["caches"][0]["resident_bytes"], 0);
  ggml_backend_buffer_clear(cache.buffer.get(), 0);
  EXPECT_EQ(nlohmann::json::parse(Report())["caches"][0]["resident_bytes"], 0);
  const auto bytes = GetBytes(cache.k[0]);
  EXPECT_TRUE(std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; }));
}

TEST(StateCalls, WrittenBeforeTheFirstAttention) {
  SetKv("f16");
  Cache source(PluginBufferType(), {}), target(PluginBufferType(), {});
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(source, MakeBatch({}, 100, 0, 0, 1, 1)).empty());
  for (size_t layer = 0; layer < 2; ++layer) {
    const auto k = GetBytes(source.k[layer]), v = GetBytes(source.v[layer]);
    ggml_backend_tensor_set(target.k_streams[layer][0], k.data(), 0, k.size());
    ggml_backend_tensor_set(target.v_streams[layer][0], v.data(), 0, v.size());
    EXPECT_EQ(GetBytes(target.k[layer]), k);
  }
  const Batch next = MakeBatch({}, 1, 100, 0, 1, 2);
  EXPECT_EQ(runner.Attend(target, next), runner.Attend(source, next));
}

// An RPC server allocates a buffer whose tensors it does not know, places them itself, and rebuilds views without view_src.
TEST(StateCalls, TensorsOfAnRpcServer) {
  SetKv("f16");
  Cache reference(PluginBufferType(), {});
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(reference, MakeBatch({}, 100, 0, 0, 1, 1)).empty());

  Cache remote(ggml_backend_cpu_buffer_type(), {});
  size_t each = ggml_nbytes(remote.k[0]);
  ggml_backend_buffer_ptr buffer(ggml_backend_buft_alloc_buffer(PluginBufferType(), 4 * each));
  auto* base = static_cast<uint8_t*>(ggml_backend_buffer_get_base(buffer.get()));
  const auto place = [&](ggml_tensor* tensor, size_t at) {
    tensor->buffer = buffer.get();
    tensor->data = base + at;
  };
  size_t at = 0;
  for (ggml_tensor* root : {remote.k[0], remote.v[0], remote.k[1], remote.v[1]}) place(root, std::exchange(at, at + each));
  const auto restore = [&](ggml_tensor* root, const std::vector<uint8_t>& bytes) {
    ggml_tensor loose = *root;
    std::strcpy(loose.name, (std::string(root->name) + " (view)").c_str());
    loose.data = static_cast<uint8_t*>(root->data) + 30 * kRow;
    loose.ne[1] -= 30;
    ggml_backend_tensor_set(&loose, bytes.data() + 30 * kRow, 0, 70 * kRow);
  };
  for (size_t layer = 0; layer < 2; ++layer) {
    restore(remote.k[layer], GetBytes(reference.k[layer]));
    restore(remote.v[layer], GetBytes(reference.v[layer]));
  }
  Batch next = MakeBatch({}, 1, 100, 0, 1, 2);
  for (int i = 0; i < 256; ++i) next.mask.push_back(i >= 30 && i <= 100 ? 0.0f : -INFINITY);
  EXPECT_EQ(runner.Attend(remote, next), runner.Attend(reference, next));
  // Now that the roots are known, loose views go to the packed rows.
  restore(remote.k[0], std::vector<uint8_t>(100 * kRow, 0));
  const auto zeros = GetBytes(remote.k[0]);
  EXPECT_TRUE(std::all_of(zeros.begin() + 30 * kRow, zeros.begin() + 100 * kRow, [](uint8_t byte) { return byte == 0; }));
}

TEST(Report, CountsBytesAndOperations) {
  ASSERT_EQ(SetKv("turbo4"), "");
  Shape shape;
  shape.num_cells = 512;
  {
    Cache cache(PluginBufferType(), shape);
    ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch(shape, 10, 0, 0, 1, 1)).empty());
    const auto report = nlohmann::json::parse(Report());
    ASSERT_EQ(report["caches"].size(), 1u);
    const auto& entry = report["caches"][0];
    EXPECT_EQ(entry["kv"], "k=turbo4,v=turbo4");
    EXPECT_EQ(entry["tensors"], 4);
    EXPECT_EQ(entry["cells"], 512);
    EXPECT_EQ(entry["head_width"], 64);
    EXPECT_EQ(entry["f16_bytes"], 4 * 512 * shape.row() * 2);
    EXPECT_DOUBLE_EQ(entry["bits_per_value"], 4.25);
    EXPECT_EQ(entry["packed_bytes"].get<double>(), entry["f16_bytes"].get<double>() * 4.25 / 16);
    EXPECT_GT(entry["resident_bytes"], 0);
    EXPECT_EQ(entry["set_rows"], 4);
    EXPECT_EQ(entry["flash_attention"], 2);
    EXPECT_EQ(entry["shadow"], 0);
    // The host counts the packed size.
    EXPECT_LT(ggml_backend_buffer_get_size(cache.buffer.get()), entry["f16_bytes"].get<size_t>() / 3);
  }
  EXPECT_TRUE(nlohmann::json::parse(Report())["caches"].empty()) << "a freed buffer leaves the report";
}

TEST(Report, BoundaryLayersAreCountedOverTheContext) {
  ASSERT_EQ(SetKv("k=turbo2,v=turbo2,boundary=1:f16"), "");
  Shape shape;
  shape.num_layers = 4;
  Cache cache(PluginBufferType(), shape);
  ASSERT_FALSE(Runner(PluginDevice()).Attend(cache, MakeBatch(shape, 10, 0, 0, 1, 1)).empty());
  const auto entry = nlohmann::json::parse(Report())["caches"][0];
  EXPECT_DOUBLE_EQ(entry["bits_per_value"], (2 * 16 + 2 * 2.25) / 4);
  EXPECT_EQ(ggml_backend_buffer_get_size(cache.buffer.get()), entry["packed_bytes"].get<size_t>()) << "the estimate is exact for width 64";
}

TEST(SetKv, RefusesWhatIsNoSpec) {
  EXPECT_EQ(SetKv("turbo3"), "");
  EXPECT_NE(SetKv("turbo99"), "");
  EXPECT_NE(nlohmann::json::parse(Report())["kv"].get<std::string>().find("turbo3"), std::string::npos) << "an error changes nothing";
}

}  // namespace
}  // namespace swivel::plugin_test
