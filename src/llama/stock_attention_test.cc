// The reference of `swivel bench` computes the same attention as what it is compared with, and so does each on its own layers.
#include "llama/stock_attention.h"

#include <gtest/gtest.h>

#include <cmath>
#include <span>

#include "base/cpu.h"
#include "eval/packed_attention.h"
#include "ggml.h"

namespace swivel {
namespace {

double RelativeError(std::span<const float> got, std::span<const float> expected) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += std::pow(static_cast<double>(got[i]) - static_cast<double>(expected[i]), 2);
    norm += std::pow(static_cast<double>(expected[i]), 2);
  }
  return std::sqrt(error / norm);
}

void ExpectAgreement(int queries, int ggml_type, const char* spec, double bound) {
  AttentionShape shape;
  shape.head_width = 64;
  shape.num_heads = 6;
  shape.num_kv_heads = 2;
  shape.num_queries = queries;
  shape.num_cells = 640;  // from 512 on ggml splits the cells of one query over its threads
  shape.num_layers = 2;
  const AttentionData data(shape, shape.num_cells);
  ThreadTeam team(2);
  auto ours = PackedAttention::Create(*ParseSpec(spec), shape, data, KernelsFor(SupportedTargets().back()), &team);
  auto stock = StockAttention::Create(ggml_type, shape, 2);
  ASSERT_TRUE(ours.ok()) << ours.status().message();
  ASSERT_TRUE(stock.ok()) << stock.status().message();
  for (int64_t cell = 0; cell < shape.num_cells; ++cell) (*stock)->SetCell(cell, data.K(cell), data.V(cell));
  (*stock)->SetQueries(data.q, data.mask);
  for (int layer = 0; layer < 2; ++layer) {
    (*ours)->Run(layer);
    ASSERT_TRUE((*stock)->Run(layer).ok());
    EXPECT_LT(RelativeError((*ours)->Output(), (*stock)->Output(layer)), bound) << "layer " << layer << ", " << queries << " queries";
    (*stock)->Park();
  }
  EXPECT_NEAR(static_cast<double>((*ours)->CacheBytes()), static_cast<double>((*stock)->CacheBytes()), 1.0);
}

TEST(StockAttention, AgreesWithOursOnF16) { ExpectAgreement(100, GGML_TYPE_F16, "f16", 1e-3); }

// Below 64 queries ggml sums V in f16, one rounding (2^-11) a cell; tests/plugin/attention_test.cc leaves the same room.
TEST(StockAttention, AgreesWithOursOnF16AsFarAsItsHalfSumsGo) {
  for (const int queries : {1, 5}) ExpectAgreement(queries, GGML_TYPE_F16, "f16", 4e-3);
}

// ggml rounds q to 8 bits where K is quantized.
TEST(StockAttention, AgreesWithOursOnQ8_0) {
  for (const int queries : {1, 100}) ExpectAgreement(queries, GGML_TYPE_Q8_0, "q8_0", 2e-2);
}

TEST(StockAttention, NamesAWidthThatItCannotServe) {
  AttentionShape shape;
  shape.head_width = 80;
  const auto stock = StockAttention::Create(GGML_TYPE_Q4_0, shape, 1);
  ASSERT_FALSE(stock.ok());
  EXPECT_NE(stock.status().message().find("80"), std::string::npos);
}

}  // namespace
}  // namespace swivel
