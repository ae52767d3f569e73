#include "cli/size_cache.h"

#include <gtest/gtest.h>

#include "cli/size_table.h"

namespace swivel::cli {
namespace {

gguf::ModelShape Model(int layers, int heads_kv, int width, int window = 0) {
  gguf::ModelShape shape;
  for (int i = 0; i < layers; ++i) shape.layers.push_back({i, 4 * heads_kv, heads_kv, width, width, window});
  return shape;
}

SizedCache Stock(const std::string& type) { return {type, type, std::nullopt}; }
SizedCache Packed(const std::string& spec) { return {spec, "", ParseSpec(spec).value()}; }

// What llama.cpp's log says for SmolLM2-135M ("KV buffer size = 45.00 MiB" at 2048 cells).
TEST(CacheBytes, AgreesWithLlamaCpp) {
  const gguf::ModelShape smol = Model(30, 3, 64);
  EXPECT_EQ(CacheBytes(smol, Stock("f16"), 2048, {}).value(), 45u << 20);
  EXPECT_EQ(CacheBytes(smol, Stock("q8_0"), 2048, {}).value(), (45u << 20) * 17 / 32);
  EXPECT_EQ(CacheBytes(smol, Stock("f16"), 2000, {}).value(), 45u << 20);  // cells come in multiples of 256
}

TEST(CacheBytes, CountsWholeGroupsOfEveryHead) {
  const gguf::ModelShape smol = Model(30, 3, 64);
  const Codec& codec = *FindCodec("turbo3").value();
  EXPECT_EQ(CacheBytes(smol, Packed("turbo3"), 256, {}).value(), 30u * 3 * 2 * 2 * codec.group_bytes(64));
  const double bits =
      8.0 * static_cast<double>(CacheBytes(smol, Packed("turbo3"), 4096, {}).value()) / static_cast<double>(CacheValues(smol, 4096, {}));
  EXPECT_DOUBLE_EQ(bits, BitsPerValue(codec, 64));
}

TEST(CacheBytes, BoundaryLayersHaveTheirOwnCodec) {
  const gguf::ModelShape model = Model(4, 1, 64);
  const uint64_t plain = CacheBytes(model, Packed("turbo2"), 256, {}).value();
  const uint64_t q8 = CacheBytes(model, Packed("q8_0"), 256, {}).value();
  EXPECT_EQ(CacheBytes(model, Packed("k=turbo2,v=turbo2,boundary=1:q8_0"), 256, {}).value(), plain / 2 + q8 / 2);
}

TEST(CacheBytes, LatentAttentionStoresKOnly) {
  gguf::ModelShape mla = Model(2, 1, 576);
  for (gguf::CachedLayer& layer : mla.layers) layer.v_width = 0;
  EXPECT_EQ(CacheBytes(mla, Stock("f16"), 256, {}).value(), 2u * 256 * 576 * 2);
  EXPECT_EQ(CacheBytes(mla, Packed("k=turbo4,v=turbo2"), 256, {}).value(), 2u * 2 * FindCodec("turbo4").value()->group_bytes(576));
}

TEST(CacheBytes, WidthsThatCannotBeServedAreRefused) {
  EXPECT_EQ(CacheBytes(Model(2, 1, 80), Stock("q8_0"), 256, {}).status().code(), StatusCode::kUnsupported);
  EXPECT_EQ(CacheBytes(Model(2, 1, 8), Packed("turbo3"), 256, {}).status().code(), StatusCode::kUnsupported);
}

TEST(CellsOf, StreamsAndWindows) {
  const gguf::CachedLayer full = Model(1, 1, 64).layers[0], windowed = Model(1, 1, 64, 512).layers[0];
  EXPECT_EQ(CellsOf(full, 8192, {4, false, 512}).cells, 2048);
  EXPECT_EQ(CellsOf(full, 8192, {4, false, 512}).streams, 4);
  EXPECT_EQ(CellsOf(full, 8192, {4, true, 512}).cells, 8192);
  EXPECT_EQ(CellsOf(windowed, 8192, {1, false, 512}).cells, 1024);  // llama.cpp's log for Gemma 3
  EXPECT_EQ(CellsOf(windowed, 8192, {4, true, 512}).cells, 2560);
  EXPECT_EQ(CellsOf(windowed, 512, {1, false, 512}).cells, 512);
  EXPECT_EQ(CellsOf(windowed, 8192, {1, false, 300}).cells, 1024);
}

TEST(LongestContext, IsTheLastThatFits) {
  const gguf::ModelShape smol = Model(30, 3, 64);
  const uint64_t budget = 100u << 20;
  for (const SizedCache& choice : {Stock("f16"), Packed("turbo3"), Packed("k=q8_0,v=turbo2")}) {
    const int64_t longest = LongestContext(smol, choice, budget, {}).value();
    EXPECT_LE(CacheBytes(smol, choice, longest, {}).value(), budget);
    EXPECT_GT(CacheBytes(smol, choice, longest + 256, {}).value(), budget);
  }
  EXPECT_EQ(LongestContext(smol, Stock("f16"), 1000, {}).value(), 0);
  EXPECT_EQ(LongestContext(Model(2, 1, 64, 512), Stock("f16"), budget, {}).value(), kLongestContext);  // windows only
}

TEST(ParseBytes, UnitsAndNonsense) {
  EXPECT_EQ(ParseBytes("16G").value(), uint64_t{16} << 30);
  EXPECT_EQ(ParseBytes("1.5 GiB").value(), uint64_t{3} << 29);
  EXPECT_EQ(ParseBytes("512mb").value(), uint64_t{512} << 20);
  EXPECT_EQ(ParseBytes("1000").value(), 1000u);
  for (const char* text : {"", "G", "-1", "16X", "16GGG", "1e300", "nan", "inf", "0x10q", "16 elephants"}) {
    EXPECT_FALSE(ParseBytes(text).ok()) << text;
  }
}

TEST(Table, AlignsByCharactersNotBytes) {
  Table table;
  table.header = {"a", "b"};
  table.rows = {{"é", "1"}, {"xyzw", "22"}};
  EXPECT_EQ(table.Markdown(), "| a    |   b |\n|------|----:|\n| é    |   1 |\n| xyzw |  22 |\n");
  table.rows = {{"k=a,v=b", "say \"x\""}};
  EXPECT_EQ(table.Csv(), "a,b\n\"k=a,v=b\",\"say \"\"x\"\"\"\n");
}

}  // namespace
}  // namespace swivel::cli
