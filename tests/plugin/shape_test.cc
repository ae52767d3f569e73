// Head widths, K and V of different widths, groups of query heads: whole models, so that row sizes, views and head counts are llama.cpp's.
#include <gtest/gtest.h>

#include <algorithm>

#include "player.h"

namespace swivel::plugin_test {
namespace {

struct Heads {
  uint32_t k_width, v_width, num_heads, num_kv_heads;
};
std::string Name(const Heads& heads) {
  return std::to_string(heads.k_width) + "_" + std::to_string(heads.v_width) + "_" + std::to_string(heads.num_heads) + "to" +
         std::to_string(heads.num_kv_heads);
}
void PrintTo(const Heads& heads, std::ostream* out) { *out << Name(heads); }

// llama.cpp's llama has one width for K and V.
ModelKeys KeysOf(const Heads& heads) {
  if (heads.k_width == heads.v_width) return ModelKeys("llama", heads.k_width, heads.num_heads, heads.num_kv_heads);
  return ModelKeys("deepseek2", heads.k_width, heads.num_heads, heads.num_kv_heads)
      .Set("attention.value_length", heads.v_width)
      .Set("attention.q_lora_rank", 64u)
      .Set("attention.kv_lora_rank", 64u)
      .Set("rope.dimension_count", 32u)
      .Set("leading_dense_block_count", 2u)
      .Set("expert_count", 2u)
      .Set("expert_used_count", 2u)
      .Set("expert_shared_count", 1u)
      .Set("expert_gating_func", 2u)
      .Set("expert_feed_forward_length", 96u);
}

class Shapes : public testing::TestWithParam<std::tuple<Heads, KvCase>> {};
constexpr Heads kHeads[] = {
    {32, 32, 2, 1},   {48, 48, 2, 1},   {64, 64, 3, 3},   {80, 80, 4, 2},   {96, 96, 2, 2},   {112, 112, 2, 1},
    {128, 128, 4, 1}, {160, 160, 2, 1}, {192, 192, 2, 1}, {256, 256, 4, 1}, {320, 320, 1, 1}, {512, 512, 2, 1},
    {576, 576, 1, 1}, {192, 128, 2, 2}, {64, 128, 4, 4},  {256, 64, 2, 2},  {576, 512, 1, 1},                   // K and V differ
    {64, 64, 1, 1},   {64, 64, 12, 4},  {32, 32, 14, 2},  {64, 64, 8, 1},   {32, 32, 16, 1},  {32, 32, 32, 1},  // groups
    {32, 32, 34, 2},
};
INSTANTIATE_TEST_SUITE_P(Kv, Shapes, testing::Combine(testing::ValuesIn(kHeads), testing::ValuesIn(kKvCases)),
                         [](const auto& test) { return Name(std::get<0>(test.param)) + "_" + std::get<1>(test.param).name; });

TEST_P(Shapes, PrefillAndDecode) {
  const auto& [heads, kv] = GetParam();
  // A basis is made from twice as many tokens as a head is wide.
  const int prompt = std::max(290, 2 * static_cast<int>(heads.k_width) + 150);
  Setting setting;
  setting.num_cells = 512 + 2 * heads.k_width;
  CheckStory(kv, KeysOf(heads), setting, [&](Player& p) {
    p.Decode(0, 0, 3);
    for (int done = 3; done < prompt;) {
      const int part = std::min(290, prompt - done);
      p.Decode(0, done, part);
      done += part;
    }
    for (int i = 0; i < 4; ++i) p.Decode(0, prompt + i, 1);
    p.Decode(0, prompt + 4, 7);
  });
}

// Layers whose heads differ in number: each tensor has a shape of its own.
TEST(ShapesOfLayers, MayDiffer) {
  const ModelKeys keys = ModelKeys("deci", 64)
                             .Set("block_count", 3u)
                             .Set("attention.head_count", std::vector<uint32_t>{4, 2, 4})
                             .Set("attention.head_count_kv", std::vector<uint32_t>{2, 1, 4})
                             .Set("feed_forward_length", std::vector<uint32_t>{96, 96, 64});
  for (const KvCase& kv : kKvCases) {
    SCOPED_TRACE(kv.name);
    CheckStory(kv, keys, {}, [](Player& p) {
      p.Decode(0, 0, 290);
      for (int i = 0; i < 4; ++i) p.Decode(0, 290 + i, 1);
    });
  }
}

}  // namespace
}  // namespace swivel::plugin_test
