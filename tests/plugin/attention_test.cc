// The operations on a cache, against the CPU backend on an f16 cache.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

ggml_backend_dev_t Cpu() { return ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU); }

// Both sides see the same batches. The CPU rounds q to f16 and accumulates V in f16; that is what the f16 bound leaves room for.
constexpr double kExactBound = 4e-3;

struct Pair {
  explicit Pair(const Shape& shape, const std::string& spec)
      : set(SetKv(spec)), ours(PluginBufferType(), shape), stock(CpuBufferType(), shape), our_runner(PluginDevice()), stock_runner(Cpu()) {}

  double Step(const Batch& batch) {
    const auto got = our_runner.Attend(ours, batch);
    const auto expected = stock_runner.Attend(stock, batch);
    return RelativeError(got, expected);
  }

  static ggml_backend_buffer_type_t CpuBufferType() { return ggml_backend_dev_buffer_type(Cpu()); }

  std::string set;
  Cache ours, stock;
  Runner our_runner, stock_runner;
};

TEST(Attention, F16AgreesWithTheCpuInPrefillAndDecode) {
  Pair pair({}, "f16");
  ASSERT_NE(pair.ours.buffer, nullptr);
  EXPECT_LT(pair.Step(MakeBatch({}, 40, 0, 0, 1, 1)), kExactBound);
  EXPECT_EQ(pair.our_runner.num_splits(), 1);
  for (int i = 0; i < 4; ++i) EXPECT_LT(pair.Step(MakeBatch({}, 1, 40 + i, 0, 1, 10 + static_cast<uint32_t>(i))), kExactBound);
  EXPECT_LT(pair.Step(MakeBatch({}, 150, 44, 0, 1, 20)), kExactBound);  // over the border of a group
}

TEST(Attention, Turbo4IsCloseToTheCpu) {
  Pair pair({}, "turbo4");
  EXPECT_LT(pair.Step(MakeBatch({}, 200, 0, 0, 1, 1)), 0.3);
  EXPECT_LT(pair.Step(MakeBatch({}, 1, 200, 0, 1, 2)), 0.3);
}

TEST(Attention, SeveralStreamsAndAViewThatStartsAtTheSecond) {
  Shape shape;
  shape.num_streams = 4;
  Pair pair(shape, "f16");
  EXPECT_LT(pair.Step(MakeBatch(shape, 20, 0, 0, 4, 1)), kExactBound);
  EXPECT_LT(pair.Step(MakeBatch(shape, 1, 20, 1, 3, 2)), kExactBound);
  EXPECT_LT(pair.Step(MakeBatch(shape, 3, 21, 3, 1, 3)), kExactBound);
}

TEST(Attention, WiderHeadsAndOneKvHead) {
  Shape shape;
  shape.width = 256;
  shape.num_kv_heads = 1;
  shape.num_heads = 4;
  Pair pair(shape, "f16");
  EXPECT_LT(pair.Step(MakeBatch(shape, 33, 0, 0, 1, 1)), kExactBound);
  EXPECT_LT(pair.Step(MakeBatch(shape, 1, 33, 0, 1, 2)), kExactBound);
}

TEST(Attention, SinksAlibiSoftcapAndNoMask) {
  Shape shape;
  shape.num_heads = 6;
  {
    Pair pair(shape, "f16");
    Batch batch = MakeBatch(shape, 16, 0, 0, 1, 1);
    batch.sinks = {0.5f, -1.0f, 2.0f, 0.0f, 1.0f, 3.0f};
    EXPECT_LT(pair.Step(batch), kExactBound) << "sinks";
  }
  {
    Pair pair(shape, "f16");
    Batch batch = MakeBatch(shape, 16, 0, 0, 1, 2);
    batch.max_bias = 8.0f;
    for (int q = 0; q < 16; ++q) {
      for (int i = 0; i < shape.num_cells; ++i) batch.mask.push_back(i <= q ? -static_cast<float>(q - i) : -INFINITY);
    }
    EXPECT_LT(pair.Step(batch), kExactBound) << "ALiBi";
  }
  {
    Pair pair(shape, "f16");
    Batch batch = MakeBatch(shape, 16, 0, 0, 1, 3);
    batch.softcap = 5.0f;
    EXPECT_LT(pair.Step(batch), kExactBound) << "soft-cap";
  }
  {
    Pair pair(shape, "f16");
    Batch batch = MakeBatch(shape, shape.num_cells, 0, 0, 1, 4);
    batch.with_mask = false;
    EXPECT_LT(pair.Step(batch), kExactBound) << "no mask";
  }
}

TEST(Attention, NodeByNodeGivesTheSameNumbers) {
  SetKv("turbo4");
  const Batch batch = MakeBatch({}, 30, 0, 0, 1, 1);
  Cache whole(PluginBufferType(), {}), single(PluginBufferType(), {});
  Runner runner(PluginDevice()), stepper(PluginDevice());
  stepper.SetNodeByNode();
  const auto expected = runner.Attend(whole, batch);
  const auto got = stepper.Attend(single, batch);
  ASSERT_FALSE(expected.empty());
  EXPECT_EQ(got, expected);
}

TEST(Attention, ThreadCountDoesNotChangeTheResult) {
  SetKv("turbo3");
  const Batch batch = MakeBatch({}, 70, 0, 0, 1, 1);
  std::vector<float> expected;
  for (const int threads : {1, 2, 3, 5}) {
    Cache cache(PluginBufferType(), {});
    const auto got = Runner(PluginDevice(), threads).Attend(cache, batch);
    ASSERT_FALSE(got.empty());
    if (expected.empty()) expected = got;
    EXPECT_EQ(got, expected) << threads << " threads";
  }
}

TEST(Attention, NanStaysVisible) {
  SetKv("turbo4");
  Cache cache(PluginBufferType(), {});
  Batch batch = MakeBatch({}, 8, 0, 0, 1, 1);
  batch.v[5] = std::numeric_limits<float>::quiet_NaN();  // token 0, KV head 0 of layer 0
  const auto out = Runner(PluginDevice()).Attend(cache, batch);
  ASSERT_FALSE(out.empty());
  EXPECT_TRUE(std::isnan(out[0]));
  EXPECT_FALSE(std::isnan(out.back())) << "layer 1 is sound";
}

TEST(Attention, TwoContextsInTwoThreads) {
  SetKv("turbo4");
  const Batch batch = MakeBatch({}, 60, 0, 0, 1, 1);
  std::vector<float> results[2];
  std::thread threads[2];
  for (int i = 0; i < 2; ++i) {
    threads[i] = std::thread([&, i] {
      for (int round = 0; round < 3; ++round) {
        Cache cache(PluginBufferType(), {});
        results[i] = Runner(PluginDevice(), 1).Attend(cache, batch);
      }
    });
  }
  for (auto& thread : threads) thread.join();
  ASSERT_FALSE(results[0].empty());
  EXPECT_EQ(results[0], results[1]);
}

TEST(Shift, RotatesTheKeysOfAllStreams) {
  Shape shape;
  shape.num_streams = 2;
  Pair pair(shape, "f16");
  ASSERT_LT(pair.Step(MakeBatch(shape, 50, 0, 0, 2, 1)), kExactBound);
  std::vector<int32_t> shifts(static_cast<size_t>(shape.num_cells * shape.num_streams), 0);
  for (int cell = 10; cell < 50; ++cell) shifts[static_cast<size_t>(cell)] = -7;
  ASSERT_TRUE(pair.our_runner.Shift(pair.ours, shifts));
  ASSERT_TRUE(pair.stock_runner.Shift(pair.stock, shifts));
  EXPECT_EQ(GetBytes(pair.ours.k[0]), GetBytes(pair.stock.k[0]));
  EXPECT_EQ(GetBytes(pair.ours.k[1]), GetBytes(pair.stock.k[1]));
  EXPECT_LT(pair.Step(MakeBatch(shape, 1, 50, 0, 2, 2)), kExactBound);
}

TEST(Shift, LeavesUnshiftedCellsOfALossyCacheAlone) {
  SetKv("turbo3");
  Cache cache(PluginBufferType(), {});
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch({}, 50, 0, 0, 1, 1)).empty());
  const auto before = GetBytes(cache.k[0]);
  std::vector<int32_t> shifts(256, 0);
  ASSERT_TRUE(runner.Shift(cache, shifts));
  EXPECT_EQ(GetBytes(cache.k[0]), before);
  shifts[3] = 5;
  ASSERT_TRUE(runner.Shift(cache, shifts));
  const auto after = GetBytes(cache.k[0]);
  const size_t row = static_cast<size_t>(cache.shape.row()) * 2;
  for (size_t cell = 0; cell < 256; ++cell) {
    EXPECT_EQ(std::memcmp(&after[cell * row], &before[cell * row], row) != 0, cell == 3) << "cell " << cell;
  }
}

}  // namespace
}  // namespace swivel::plugin_test
