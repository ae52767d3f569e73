#include "cli/calibration_run.h"

#include <gtest/gtest.h>

#include <numeric>
#include <vector>

namespace swivel::cli {
namespace {

std::vector<Token> Numbers(int count) {
  std::vector<Token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

TEST(PlanChunks, TakesFullChunksAndSpreadsThem) {
  const auto first_tokens = [](int tokens, int most, bool bos) {
    StatusOr<std::vector<std::vector<Token>>> chunks = PlanChunks(Numbers(tokens), 10, most, bos, -7);
    EXPECT_TRUE(chunks.ok());
    std::vector<Token> first;
    for (const std::vector<Token>& chunk : *chunks) {
      EXPECT_EQ(chunk.size(), 10u);
      EXPECT_EQ(chunk[0] == -7, bos);
      first.push_back(chunk[bos ? 1 : 0]);
    }
    return first;
  };
  EXPECT_EQ(first_tokens(39, 8, false), (std::vector<Token>{0, 10, 20}));
  EXPECT_EQ(first_tokens(39, 8, true), (std::vector<Token>{0, 9, 18, 27}));
  EXPECT_EQ(first_tokens(95, 3, false), (std::vector<Token>{0, 30, 60}));
  EXPECT_EQ(first_tokens(10, 1, false), (std::vector<Token>{0}));
  EXPECT_FALSE(PlanChunks(Numbers(9), 10, 8, false, 0).ok());
  EXPECT_NE(HashOfChunks({Numbers(3)}), HashOfChunks({Numbers(4)}));
}

gguf::ModelShape Shape() {
  gguf::ModelShape shape;
  for (int layer : {0, 1, 3}) {
    gguf::CachedLayer cached;
    cached.layer = layer;
    cached.heads_q = 6;
    cached.heads_kv = 2;
    cached.k_width = 64;
    shape.layers.push_back(cached);
  }
  return shape;
}

TEST(LayerGroups, FitIntoMemory) {
  const int64_t layer_bytes = 8 * 64 * 100 * 4;
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(LayerGroups(Shape(), 100, 3 * layer_bytes).value(), (Groups{{0, 1, 3}}));
  EXPECT_EQ(LayerGroups(Shape(), 100, 3 * layer_bytes - 1).value(), (Groups{{0, 1}, {3}}));
  EXPECT_EQ(LayerGroups(Shape(), 100, layer_bytes).value(), (Groups{{0}, {1}, {3}}));
  EXPECT_EQ(LayerGroups(Shape(), 100, layer_bytes - 1).status().code(), StatusCode::kOutOfMemory);
}

TEST(EmptyLayers, AreThoseOfTheModel) {
  const StatusOr<std::vector<LayerMoments>> layers = EmptyLayers(Shape());
  ASSERT_TRUE(layers.ok());
  ASSERT_EQ(layers.value().size(), 3u);
  EXPECT_EQ(layers.value()[2].layer, 3);
  EXPECT_EQ(layers.value()[2].heads.size(), 2u);
  EXPECT_EQ(layers.value()[2].heads[1].width, 64);
  gguf::ModelShape wrong = Shape();
  wrong.mla = true;
  EXPECT_EQ(EmptyLayers(wrong).status().code(), StatusCode::kUnsupported);
  wrong = Shape();
  wrong.layers[1].k_width = 72;
  EXPECT_EQ(EmptyLayers(wrong).status().code(), StatusCode::kUnsupported);
}

}  // namespace
}  // namespace swivel::cli
