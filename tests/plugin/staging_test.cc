// Staged caches in the plugin: rows stay exact until their group is packed, and everything a host may do to a cache meets both kinds.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <nlohmann/json.hpp>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

constexpr const char* kHadamard = "k=tcq4,v=tcq4,transform=wht,window=64";

nlohmann::json CacheReport() { return nlohmann::json::parse(Report())["caches"][0]; }

Shape LongShape() {
  Shape shape;
  shape.num_cells = 768;
  return shape;
}

// Several prompts' worth of batches; returns what one more token then attends to.
std::vector<float> Fill(Runner& runner, const Cache& cache, const std::vector<int>& sizes) {
  const Shape& shape = cache.shape;
  // The rows of all tokens at once, so that they do not depend on how they are cut.
  int total = 0;
  for (int size : sizes) total += size;
  const Batch all = MakeBatch(shape, total, 0, 0, 1, 77);
  int done = 0;
  for (int size : sizes) {
    Batch part = MakeBatch(shape, size, done, 0, 1, 1);
    const auto cut = [&](const std::vector<float>& from, std::vector<float>* to, int heads) {
      const auto row = static_cast<size_t>(heads) * static_cast<size_t>(shape.width);
      for (int layer = 0; layer < shape.num_layers; ++layer) {
        const auto source = from.begin() + static_cast<std::ptrdiff_t>((static_cast<size_t>(layer) * static_cast<size_t>(total) + static_cast<size_t>(done)) * row);
        const auto target = to->begin() + static_cast<std::ptrdiff_t>(static_cast<size_t>(layer) * static_cast<size_t>(size) * row);
        std::copy(source, source + static_cast<std::ptrdiff_t>(static_cast<size_t>(size) * row), target);
      }
    };
    cut(all.q, &part.q, shape.num_heads);
    cut(all.k, &part.k, shape.num_kv_heads);
    cut(all.v, &part.v, shape.num_kv_heads);
    EXPECT_FALSE(runner.Attend(cache, part).empty());
    done += size;
  }
  return runner.Attend(cache, MakeBatch(shape, 1, done, 0, 1, 5));
}

TEST(Staging, PacksGroupsThatHaveLeftTheWindowAndStaysCloseToTheCpu) {
  const Shape shape = LongShape();
  SetKv(kHadamard);
  Cache ours(PluginBufferType(), shape), stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner our_runner(PluginDevice()), stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  const std::vector<int> sizes = {100, 200, 1, 130, 1, 1};
  const auto got = Fill(our_runner, ours, sizes);
  const auto expected = Fill(stock_runner, stock, sizes);
  EXPECT_LT(RelativeError(got, expected), 0.3);
  const auto report = CacheReport();
  EXPECT_EQ(report["packed_cells"], 2 * 256) << "of 434 cells the group of 384 is not full, that of 256 to 383 not yet 64 tokens old";
  EXPECT_EQ(report["window_cells"], 2 * (434 - 256));
  EXPECT_EQ(report["groups_packed"], 2 * shape.num_layers);
  EXPECT_EQ(report["shadow"], 0);
  EXPECT_EQ(our_runner.num_splits(), 1);
}

// kivi needs whole groups, so its specs are staged without saying so.
TEST(Staging, ACodecThatEncodesGroupsWaitsForThem) {
  const Shape shape = LongShape();
  SetKv("kivi4");
  Cache ours(PluginBufferType(), shape), stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner our_runner(PluginDevice()), stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  const std::vector<int> sizes = {100, 200, 1, 130, 1, 1};
  EXPECT_LT(RelativeError(Fill(our_runner, ours, sizes), Fill(stock_runner, stock, sizes)), 0.2);
  EXPECT_EQ(CacheReport()["packed_cells"], 2 * 384);
  EXPECT_EQ(CacheReport()["window_cells"], 2 * (434 - 384));
}

TEST(Staging, ExactUntilPacked) {
  const Shape shape = LongShape();
  SetKv("k=tcq2,v=tcq2,transform=wht,window=100000");
  Cache ours(PluginBufferType(), shape), stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner our_runner(PluginDevice()), stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  EXPECT_LT(RelativeError(Fill(our_runner, ours, {400, 1}), Fill(stock_runner, stock, {400, 1})), 6e-3) << "the CPU rounds q to f16 and adds V up in f16";
}

TEST(Staging, ADeferredPromptAttendsToExactRows) {
  const Shape shape = LongShape();
  const Batch first = MakeBatch(shape, 299, 0, 0, 1, 77), rest = MakeBatch(shape, 200, 299, 0, 1, 7), token = MakeBatch(shape, 1, 499, 0, 1, 8);
  Cache stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  ASSERT_FALSE(stock_runner.Attend(stock, first).empty());
  const auto expected = stock_runner.Attend(stock, rest);
  SetKv("k=tcq2,v=tcq2,transform=wht,defer=prefill");
  for (const bool node_by_node : {false, true}) {
    Cache cache(PluginBufferType(), shape);
    Runner runner(PluginDevice());
    if (node_by_node) runner.SetNodeByNode();
    ASSERT_FALSE(runner.Attend(cache, first).empty());
    EXPECT_LT(RelativeError(runner.Attend(cache, rest), expected), 6e-3) << "the CPU rounds q to f16 and adds V up in f16";
    EXPECT_EQ(CacheReport()["packed_cells"], 0);
    EXPECT_EQ(CacheReport()["defer_batches"], shape.num_layers);
    ASSERT_FALSE(runner.Attend(cache, token).empty());
    EXPECT_EQ(CacheReport()["packed_cells"], 2 * 384);
  }
}

// The batches of 20 sequences that bring a token each are no prompt.
TEST(Staging, ManySequencesAreNotAPrompt) {
  Shape shape = LongShape();
  shape.num_streams = 20;
  SetKv("k=tcq2,v=tcq2,transform=wht,defer=prefill");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 130, 0, 0, 2, 1)).empty());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 1, 130, 0, 20, 2)).empty());
  EXPECT_EQ(CacheReport()["defer_batches"], 0);
  EXPECT_EQ(CacheReport()["packed_cells"], 2 * 2 * 128);
}

// Of 3 heads and 2 layers: the keys of one head and some values have 8 bits, the rest 2.
TEST(Staging, HeadsHaveCodecsOfTheirOwn) {
  const Shape shape = LongShape();
  const Batch all = MakeBatch(shape, 500, 0, 0, 1, 3), next = MakeBatch(shape, 1, 500, 0, 1, 4);
  const auto run = [&](ggml_backend_buffer_type_t type, ggml_backend_dev_t device, std::vector<uint8_t>* k, std::vector<uint8_t>* v) {
    Cache cache(type, shape);
    Runner runner(device);
    EXPECT_FALSE(runner.Attend(cache, all).empty());
    auto out = runner.Attend(cache, next);
    if (k != nullptr) *k = GetBytes(cache.k[1]);
    if (v != nullptr) *v = GetBytes(cache.v[1]);
    return out;
  };
  ggml_backend_dev_t cpu = ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU);
  const auto expected = run(ggml_backend_dev_buffer_type(cpu), cpu, nullptr, nullptr);
  std::vector<uint8_t> coarse[2], mixed[2], fine[2];
  SetKv("k=tcq2,v=tcq2,transform=wht");
  const auto coarse_out = run(PluginBufferType(), PluginDevice(), &coarse[0], &coarse[1]);
  SetKv("k=q8_0,v=q8_0,window=1");
  run(PluginBufferType(), PluginDevice(), &fine[0], &fine[1]);
  ASSERT_EQ(SetKv("k=tcq2,v=tcq2,transform=wht,layer=0-1/1:k=q8_0,layer=1/1-2:v=q8_0"), "");
  const auto mixed_out = run(PluginBufferType(), PluginDevice(), &mixed[0], &mixed[1]);
  const size_t head_bytes = static_cast<size_t>(shape.width) * 2;
  for (size_t cell = 0; cell < 384; ++cell) {
    for (size_t head = 0; head < 3; ++head) {
      for (size_t side = 0; side < 2; ++side) {
        const size_t at = (cell * 3 + head) * head_bytes;
        const auto& whose = head == 1 || (head == 2 && side == 1) ? fine : coarse;
        ASSERT_EQ(std::memcmp(&mixed[side][at], &whose[side][at], head_bytes), 0) << "cell " << cell << " head " << head << " side " << side;
      }
    }
  }
  // The three query heads of head 1 in layer 1 read nothing but 8 bits; those of head 0 nothing but 2, as without overrides.
  const auto error = [&](const std::vector<float>& out, std::ptrdiff_t head) {
    const auto at = (shape.num_heads + 3 * head) * shape.width, end = at + 3 * shape.width;
    return RelativeError({out.begin() + at, out.begin() + end}, {expected.begin() + at, expected.begin() + end});
  };
  EXPECT_LT(error(mixed_out, 1), 0.03);
  EXPECT_GT(error(coarse_out, 1), 0.1);
  EXPECT_EQ(error(mixed_out, 0), error(coarse_out, 0));
  EXPECT_GT(error(mixed_out, 0), 0.1);

  // 4 of 12 head sides of 64 values have 8.5 bits, the others what 2 bits take.
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, next).empty());
  const double mixed_bits = CacheReport()["bits_per_value"];
  SetKv("k=tcq2,v=tcq2,transform=wht");
  Cache plain(PluginBufferType(), shape);
  ASSERT_FALSE(runner.Attend(plain, next).empty());
  const double bits = nlohmann::json::parse(Report())["caches"].back()["bits_per_value"];
  EXPECT_NEAR(mixed_bits, (8 * bits + 4 * 8.5) / 12, .01);
}

// In a calibrated basis each class gets the transforms of its own heads: their keys are those of caches in which all heads have that codec.
TEST(Staging, HeadsOfSeveralCodecsAreCalibrated) {
  const Shape shape = LongShape();
  const auto keys = [&](const std::string& spec) {
    SetKv(spec);
    Cache cache(PluginBufferType(), shape);
    Runner runner(PluginDevice());
    Fill(runner, cache, {512, 1});
    EXPECT_EQ(CacheReport()["calibrated_layers"], shape.num_layers);
    EXPECT_EQ(CacheReport()["packed_cells"], 2 * 384);
    return GetBytes(cache.k[1]);
  };
  const auto mixed = keys("balanced,calibration=self:128,layer=0-1/1:k=tcq4"), three = keys("balanced,calibration=self:128"), four = keys("balanced,calibration=self:128,k=tcq4");
  const size_t head_bytes = static_cast<size_t>(shape.width) * 2;
  for (size_t row = 0; row < 384 * 3; ++row) {
    ASSERT_EQ(std::memcmp(&mixed[row * head_bytes], &(row % 3 == 1 ? four : three)[row * head_bytes], head_bytes), 0) << "cell " << row / 3 << " head " << row % 3;
  }
}

TEST(Staging, ACodecOfAHeadThatCannotServeTheWidthIsNamed) {
  Shape shape = LongShape();
  shape.width = 80;
  SetKv("turbo4,window=8,layer=0/2:v=q8_0");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  const std::string said = CaptureStderr([&] { runner.Attend(cache, MakeBatch(shape, 1, 0, 0, 1, 1)); });
  EXPECT_NE(said.find("q8_0 cannot serve head width 80"), std::string::npos) << said;
}

TEST(Staging, NodeByNodeGivesTheSameNumbers) {
  const Shape shape = LongShape();
  SetKv(kHadamard);
  Cache one(PluginBufferType(), shape), other(PluginBufferType(), shape);
  Runner whole(PluginDevice()), nodes(PluginDevice());
  nodes.SetNodeByNode();
  EXPECT_EQ(Fill(whole, one, {300, 1, 1}), Fill(nodes, other, {300, 1, 1}));
}

// Where keys and values of a token come in graphs of their own, there is a moment at which only the keys of a used cell are new.
TEST(Staging, NodeByNodeGivesTheSameNumbersWhereCellsAreUsedAgain) {
  const Shape shape = LongShape();
  for (const char* spec : {kHadamard, "k=tcq4,v=tcq4,transform=wht", "k=turbo3,v=turbo3,window=64", "balanced,calibration=self:128"}) {
    SCOPED_TRACE(spec);
    SetKv(spec);
    Cache one(PluginBufferType(), shape), other(PluginBufferType(), shape);
    Runner whole(PluginDevice()), nodes(PluginDevice());
    nodes.SetNodeByNode();
    const auto play = [&](Runner& runner, const Cache& cache) {
      std::vector<float> all = Fill(runner, cache, {500, 1});
      for (const auto& [first, count] : {std::pair{50, 10}, {130, 100}, {300, 1}, {502, 1}}) {
        const auto out = runner.Attend(cache, MakeBatch(shape, count, first, 0, 1, static_cast<uint32_t>(first)));
        all.insert(all.end(), out.begin(), out.end());
      }
      return all;
    };
    EXPECT_EQ(play(whole, one), play(nodes, other));
  }
}

TEST(Staging, SelfCalibrationDependsOnTheTokensNotOnTheBatches) {
  const Shape shape = LongShape();
  SetKv("balanced,calibration=self:128");
  Cache one(PluginBufferType(), shape), other(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  Fill(runner, one, {512, 1});
  Fill(runner, other, {100, 7, 250, 155, 1});
  EXPECT_EQ(CacheReport()["calibrated_layers"], shape.num_layers);
  EXPECT_EQ(CacheReport()["packed_cells"], 2 * 384);
  EXPECT_EQ(GetBytes(one.k[1]), GetBytes(other.k[1]));
  EXPECT_EQ(GetBytes(one.v[0]), GetBytes(other.v[0]));
  // A cleared cache starts again.
  const auto before = GetBytes(one.k[1]);
  ggml_backend_buffer_clear(one.buffer.get(), 0);
  Fill(runner, one, {512, 1});
  EXPECT_EQ(GetBytes(one.k[1]), before);
}

// Queries do not see rows that came into their cells later: a slot that a host uses again and again, or a sliding window.
TEST(Staging, SelfCalibrationForgetsRowsThatAreOverwritten) {
  const Shape shape = LongShape();
  SetKv("balanced,calibration=self:128");
  Cache used(PluginBufferType(), shape), fresh(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  runner.Attend(used, MakeBatch(shape, 100, 0, 0, 1, 77));
  for (const Cache* cache : {&used, &fresh}) Fill(runner, *cache, {512, 1});
  EXPECT_EQ(CacheReport()["calibrated_layers"], shape.num_layers);
  EXPECT_EQ(GetBytes(used.k[1]), GetBytes(fresh.k[1]));
}

TEST(Staging, RestoringWhatWasSavedChangesNothing) {
  for (const char* spec : {kHadamard, "balanced,calibration=self:128", "k=turbo3,v=q8_0,sinks=4,window=32", "k=kivi4,v=kivi2"}) {
    SCOPED_TRACE(spec);
    const Shape shape = LongShape();
    SetKv(spec);
    Cache cache(PluginBufferType(), shape);
    Runner runner(PluginDevice());
    Fill(runner, cache, {500, 1});
    const auto packed = CacheReport()["packed_cells"];
    EXPECT_GT(packed, 0);
    for (ggml_tensor* tensor : {cache.k_streams[0][0], cache.v_streams[1][0]}) {
      const auto saved = GetBytes(tensor);
      for (int round = 0; round < 2; ++round) ggml_backend_tensor_set(tensor, saved.data(), 0, saved.size());
      EXPECT_EQ(GetBytes(tensor), saved);
    }
    EXPECT_EQ(CacheReport()["packed_cells"], packed) << "rows that did not change are not written";
  }
}

TEST(Staging, ARestoredCacheAttendsAsTheSavedOne) {
  const Shape shape = LongShape();
  for (const char* spec : {kHadamard, "balanced,calibration=self:128,mean=on"}) {
    SCOPED_TRACE(spec);
    SetKv(spec);
    Cache first(PluginBufferType(), shape), second(PluginBufferType(), shape);
    Runner runner(PluginDevice());
    Fill(runner, first, {500, 1});
    Fill(runner, second, {1});
    for (size_t layer = 0; layer < 2; ++layer) {
      for (const auto& [from, to] : {std::pair{first.k_streams[layer][0], second.k_streams[layer][0]}, {first.v_streams[layer][0], second.v_streams[layer][0]}}) {
        const auto saved = GetBytes(from);
        ggml_backend_tensor_set(to, saved.data(), 0, saved.size());
        EXPECT_EQ(GetBytes(to), saved);
      }
    }
    const Batch next = MakeBatch(shape, 1, 502, 0, 1, 9);
    const auto expected = runner.Attend(first, next);
    EXPECT_LT(RelativeError(runner.Attend(second, next), expected), 0.35);
  }
}

TEST(Staging, AShiftOfPackedKeysIsPackedAgain) {
  const Shape shape = LongShape();
  SetKv(kHadamard);
  Cache ours(PluginBufferType(), shape), stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner our_runner(PluginDevice()), stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  Fill(our_runner, ours, {400, 1});
  Fill(stock_runner, stock, {400, 1});
  std::vector<int32_t> shifts(static_cast<size_t>(shape.num_cells), 0);
  for (int cell = 20; cell < 402; ++cell) shifts[static_cast<size_t>(cell)] = -7;
  ASSERT_TRUE(our_runner.Shift(ours, shifts));
  ASSERT_TRUE(stock_runner.Shift(stock, shifts));
  const Batch next = MakeBatch(shape, 1, 402, 0, 1, 9);
  EXPECT_LT(RelativeError(our_runner.Attend(ours, next), stock_runner.Attend(stock, next)), 0.35);
  EXPECT_EQ(CacheReport()["packed_cells"], 2 * 256) << "keys that were shifted follow their values";
}

TEST(Staging, OverwrittenCellsAreReadExactlyAndPackedAgain) {
  const Shape shape = LongShape();
  SetKv("k=tcq4,v=tcq4,transform=wht");
  Cache ours(PluginBufferType(), shape), stock(ggml_backend_dev_buffer_type(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU)), shape);
  Runner our_runner(PluginDevice()), stock_runner(ggml_backend_dev_by_type(GGML_BACKEND_DEVICE_TYPE_CPU));
  for (Runner* runner : {&our_runner, &stock_runner}) {
    const Cache& cache = runner == &our_runner ? ours : stock;
    Fill(*runner, cache, {300, 1});
    ASSERT_FALSE(runner->Attend(cache, MakeBatch(shape, 10, 50, 0, 1, 31)).empty());    // a few cells of a packed group
    ASSERT_FALSE(runner->Attend(cache, MakeBatch(shape, 100, 130, 0, 1, 32)).empty());  // most of one
  }
  const Batch next = MakeBatch(shape, 1, 302, 0, 1, 9);
  EXPECT_LT(RelativeError(our_runner.Attend(ours, next), stock_runner.Attend(stock, next)), 0.3);
  // Rows that come later may lie beyond the largest scale of their group: these stay exact.
  EXPECT_GE(CacheReport()["packed_cells"], 2 * 254);
}

TEST(Staging, StreamsAreCopiedWithWhatIsExact) {
  Shape shape = LongShape();
  shape.num_streams = 3;
  SetKv("k=tcq2,v=tcq2,transform=wht");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 300, 0, 0, 1, 1)).empty());
  ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 1, 300, 0, 1, 3)).empty());
  for (size_t layer = 0; layer < 2; ++layer) {
    ggml_backend_tensor_copy(cache.k_streams[layer][0], cache.k_streams[layer][2]);
    ggml_backend_tensor_copy(cache.v_streams[layer][0], cache.v_streams[layer][2]);
  }
  EXPECT_EQ(GetBytes(cache.k_streams[1][2]), GetBytes(cache.k_streams[1][0]));
  Batch first = MakeBatch(shape, 1, 301, 0, 1, 2);
  Batch third = first;
  third.first_stream = 2;
  EXPECT_EQ(runner.Attend(cache, first), runner.Attend(cache, third));
}

TEST(Staging, MemoryOfPackedRowsGoesBack) {
  Shape shape;
  shape.num_cells = 4096;
  SetKv("k=tcq2,v=tcq2,transform=wht");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  for (int i = 0; i < 8; ++i) ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, 512, 512 * i, 0, 1, static_cast<uint32_t>(i))).empty());
  Batch again = MakeBatch(shape, 1, 0, 0, 1, 9);
  ASSERT_FALSE(runner.Attend(cache, again).empty());
  const auto report = CacheReport();
  EXPECT_EQ(report["packed_cells"], 2 * 4095);
  EXPECT_LT(report["exact_bytes"], 4 * 4096 * 4) << "a page for the exact row of each tensor";
  EXPECT_LT(report["resident_bytes"].get<double>(), 1.1 * report["packed_bytes"].get<double>());
}

TEST(Staging, DamagedRowsStayExactAndVisible) {
  const Shape shape = LongShape();
  SetKv(kHadamard);
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  Batch first = MakeBatch(shape, 300, 0, 0, 1, 1);
  first.k[5 * 64] = std::nanf("");  // token 1 of layer 0, last head
  ASSERT_FALSE(runner.Attend(cache, first).empty());
  const auto out = runner.Attend(cache, MakeBatch(shape, 1, 300, 0, 1, 2));
  EXPECT_TRUE(std::any_of(out.begin(), out.end(), [](float x) { return std::isnan(x); }));
  EXPECT_EQ(CacheReport()["sinks_cells"], 1);
}

TEST(Staging, ABudgetIsKeptAtEveryStep) {
  Shape shape;
  shape.num_cells = 8192;
  constexpr size_t kBudget = 3 << 20;  // of 2 layers: 12.6 MB in f16, 3.3 MB with 4 bits
  SetKv("k=tcq4,v=tcq4,transform=wht,window=128,budget=3M");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  for (int cell = 0; cell < 8192;) {
    const int batch = std::min(cell < 7000 ? 512 : 61, 8192 - cell);
    ASSERT_FALSE(runner.Attend(cache, MakeBatch(shape, batch, cell, 0, 1, static_cast<uint32_t>(cell))).empty());
    cell += batch;
    ASSERT_LE(CacheReport()["budget_bytes_used"].get<size_t>(), kBudget) << cell << " tokens";
  }
  EXPECT_GT(CacheReport()["decay_groups"], 20);
  EXPECT_LT(CacheReport()["resident_bytes"].get<double>(), 1.1 * kBudget) << "whole pages";
}

// Dealt out to layers it is less than a byte each, which must not become none.
TEST(Staging, TheSmallestBudgetIsABudgetAndIsMissedAloud) {
  const Shape shape = LongShape();
  SetKv("k=tcq4,v=tcq4,transform=wht,window=1,budget=1");
  Cache cache(PluginBufferType(), shape);
  Runner runner(PluginDevice());
  const std::string said = CaptureStderr([&] {
    runner.Attend(cache, MakeBatch(shape, 500, 0, 0, 1, 1));
    runner.Attend(cache, MakeBatch(shape, 1, 500, 0, 1, 2));
  });
  EXPECT_GT(CacheReport()["decay_groups"], 0);
  EXPECT_NE(said.find("does not fit its budget"), std::string::npos) << said;
}

TEST(Staging, ACalibrationThatDoesNotExistIsRefused) {
  SetKv("balanced,calibration=/nowhere/model.swivel");
  Cache cache(PluginBufferType(), LongShape());
  Runner runner(PluginDevice());
  const std::string said = CaptureStderr([&] { runner.Attend(cache, MakeBatch(cache.shape, 1, 0, 0, 1, 1)); });
  EXPECT_NE(said.find("/nowhere/model.swivel"), std::string::npos) << said;
}

// Keys of the first 128 tokens have all of the weight, so those who see more leave the values of the others out.
TEST(SparseV, TheReportCountsValueRows) {
  const Shape shape;
  Batch batch = MakeBatch(shape, 256, 0, 0, 1, 3);
  std::fill(batch.q.begin(), batch.q.end(), 1.0f);
  const size_t row = static_cast<size_t>(shape.row());
  for (size_t i = 0; i < batch.k.size(); ++i) batch.k[i] = i / row % 256 < 128 ? 1.0f : -1.0f;
  const int rows = shape.num_heads * shape.num_layers;
  for (const char* spec : {"turbo4", "f16", kHadamard, "k=tcq3,v=turbo3,sinks=4"}) {
    SCOPED_TRACE(spec);
    Runner runner(PluginDevice());
    SetKv(spec);
    std::vector<float> off;
    {
      Cache cache(PluginBufferType(), shape);
      off = runner.Attend(cache, batch);
      EXPECT_FALSE(CacheReport().contains("v_rows"));
      EXPECT_FALSE(CacheReport().contains("sparse_v_rows"));
    }
    SetKv(std::string(spec) + ",sparse_v=0.001");
    Cache cache(PluginBufferType(), shape);
    for (int64_t times = 1; times <= 2; ++times) {
      const std::vector<float> out = runner.Attend(cache, batch);
      EXPECT_EQ(CacheReport()["v_rows"], times * rows * 256 * 257 / 2);
      EXPECT_EQ(CacheReport()["sparse_v_rows"], times * rows * 128 * 129 / 2);
      EXPECT_TRUE(times > 1 || RelativeError(out, off) < 0.001) << RelativeError(out, off);
    }
  }
  SetKv("turbo4");
}

}  // namespace
}  // namespace swivel::plugin_test
