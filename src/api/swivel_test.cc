// The C interface as a C program sees it: right results, and every kind of bad input answered with a message.
#include "swivel/swivel.h"

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

namespace {

constexpr int kWidth = 64;
constexpr int kKvHeads = 2;
constexpr int kCells = 300;

swivel_cache_params Params(const char* spec) { return {spec, 0, 4, kWidth, kWidth, kKvHeads, kCells}; }

swivel_cache* Create(const char* spec) {
  const swivel_cache_params params = Params(spec);
  swivel_cache* cache = nullptr;
  swivel_error error;
  EXPECT_EQ(swivel_cache_create(&params, &cache, &error), SWIVEL_OK) << error.message;
  EXPECT_STREQ(error.message, "");
  return cache;
}

float Wave(size_t i) { return std::sin(0.37f * static_cast<float>(i)); }

TEST(CApi, WritesReadsAttendsAndClears) {
  swivel_cache* cache = Create("k=f16,v=f16");
  std::vector<float> k(kCells * kKvHeads * kWidth), v(k.size()), k_read(k.size()), v_read(k.size());
  for (size_t i = 0; i < k.size(); ++i) {
    k[i] = Wave(i);
    v[i] = Wave(i + 11);
  }
  ASSERT_EQ(swivel_cache_write(cache, 0, kCells, k.data(), v.data(), nullptr), SWIVEL_OK);
  ASSERT_EQ(swivel_cache_read(cache, 0, kCells, k_read.data(), v_read.data(), nullptr), SWIVEL_OK);
  for (size_t i = 0; i < k.size(); ++i) ASSERT_NEAR(k[i], k_read[i], 1e-3);

  std::vector<float> q(4 * kWidth), out(q.size());
  for (size_t i = 0; i < q.size(); ++i) q[i] = Wave(3 * i);
  swivel_attention_params params = {};
  params.num_heads = 4;
  params.num_queries = 1;
  params.num_cells = kCells;
  params.q = q.data();
  params.out = out.data();
  params.scale = 0.125f;
  params.max_threads = 2;
  swivel_attention* attention = nullptr;
  ASSERT_EQ(swivel_attention_create(cache, &params, &attention, nullptr), SWIVEL_OK);
  swivel_attention_run(attention, 0, 1);
  // Head 3 reads KV head 1; softmax in double.
  double sum = 0.0, expected = 0.0;
  for (int cell = 0; cell < kCells; ++cell) {
    double logit = 0.0;
    for (int i = 0; i < kWidth; ++i) logit += q[3 * kWidth + i] * k_read[(cell * kKvHeads + 1) * kWidth + i];
    const double weight = std::exp(0.125 * logit);
    sum += weight;
    expected += weight * v_read[(cell * kKvHeads + 1) * kWidth + 5];
  }
  EXPECT_NEAR(out[3 * kWidth + 5], expected / sum, 1e-4);

  const std::vector<float> first = out;
  swivel_attention_reset(attention);
  swivel_attention_run(attention, 0, 1);
  EXPECT_EQ(first, out);
  swivel_attention_destroy(attention);

  EXPECT_GT(swivel_cache_memory(cache).resident_bytes, 0u);
  swivel_cache_clear(cache);
  EXPECT_EQ(swivel_cache_memory(cache).resident_bytes, 0u);
  ASSERT_EQ(swivel_cache_read(cache, 7, 1, k_read.data(), nullptr, nullptr), SWIVEL_OK);
  EXPECT_EQ(k_read[0], 0.0f);
  swivel_cache_destroy(cache);
}

TEST(CApi, BoundaryLayersUseTheirOwnCodec) {
  swivel_cache_params params = Params("turbo4,boundary=1:q8_0");
  swivel_cache* cache = nullptr;
  ASSERT_EQ(swivel_cache_create(&params, &cache, nullptr), SWIVEL_OK);
  EXPECT_DOUBLE_EQ(swivel_cache_memory(cache).bits_per_value, 8.5);
  swivel_cache_destroy(cache);
  params.layer = 1;
  ASSERT_EQ(swivel_cache_create(&params, &cache, nullptr), SWIVEL_OK);
  EXPECT_DOUBLE_EQ(swivel_cache_memory(cache).bits_per_value, 4.25);
  swivel_cache_destroy(cache);
}

TEST(CApi, BadInputIsNamed) {
  swivel_error error;
  swivel_cache* cache = nullptr;
  const auto fails = [&](swivel_cache_params params, swivel_status status, const char* word) {
    EXPECT_EQ(swivel_cache_create(&params, &cache, &error), status);
    EXPECT_NE(std::string(error.message).find(word), std::string::npos) << error.message;
    EXPECT_EQ(cache, nullptr);
  };
  fails(Params("turbo33"), SWIVEL_INVALID_ARGUMENT, "turbo33");
  fails(Params(nullptr), SWIVEL_INVALID_ARGUMENT, "spec");
  swivel_cache_params params = Params("turbo4");
  params.k_width = 40;
  fails(params, SWIVEL_UNSUPPORTED, "40");
  fails(Params("k=turbo4,v=kivi2"), SWIVEL_UNSUPPORTED, "kivi");
  params = Params("turbo4");
  params.num_cells = 0;
  fails(params, SWIVEL_INVALID_ARGUMENT, "cell");
  params = Params("turbo4");
  params.layer = 4;
  fails(params, SWIVEL_INVALID_ARGUMENT, "layer");
  EXPECT_EQ(swivel_cache_create(nullptr, &cache, nullptr), SWIVEL_INVALID_ARGUMENT);

  cache = Create("turbo4");
  std::vector<float> row(kKvHeads * kWidth);
  EXPECT_EQ(swivel_cache_write(cache, kCells, 1, row.data(), row.data(), &error), SWIVEL_INVALID_ARGUMENT);
  EXPECT_EQ(swivel_cache_write(cache, -1, 1, row.data(), row.data(), &error), SWIVEL_INVALID_ARGUMENT);
  EXPECT_EQ(swivel_cache_write(cache, 1, INT64_MAX, row.data(), row.data(), &error), SWIVEL_INVALID_ARGUMENT);
  EXPECT_EQ(swivel_cache_write(cache, 0, 1, nullptr, row.data(), &error), SWIVEL_INVALID_ARGUMENT);
  swivel_attention_params attention_params = {};
  swivel_attention* attention = nullptr;
  EXPECT_EQ(swivel_attention_create(cache, &attention_params, &attention, &error), SWIVEL_INVALID_ARGUMENT);
  EXPECT_NE(error.message[0], '\0');
  swivel_cache_destroy(cache);
  swivel_cache_destroy(nullptr);
}

TEST(CApi, ListsCodecs) {
  EXPECT_DOUBLE_EQ(swivel_codec_bits("turbo4", 128), 4.125);
  EXPECT_DOUBLE_EQ(swivel_codec_bits("turbo4", 24), 0.0);
  EXPECT_DOUBLE_EQ(swivel_codec_bits("nothing", 64), 0.0);
  EXPECT_STREQ(swivel_codec_name(0), "f16");
  EXPECT_EQ(swivel_codec_name(swivel_codec_count()), nullptr);
}

}  // namespace
