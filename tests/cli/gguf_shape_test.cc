#include <gtest/gtest.h>

#include "gguf/shape.h"
#include "gguf_builder.h"

namespace swivel::gguf {
namespace {

StatusOr<ModelShape> Shape(const Builder& builder) { return ReadShape(ParseHeader(builder.Bytes()).value()); }

int Windowed(const ModelShape& shape) {
  int count = 0;
  for (const CachedLayer& layer : shape.layers) count += layer.window > 0;
  return count;
}

TEST(Shape, GroupedQueries) {
  const ModelShape shape = Shape(Decoder("llama", 30, 576, 9, 3)).value();
  EXPECT_EQ(shape.layers.size(), 30u);
  EXPECT_EQ(shape.layers[0].heads_q, 9);
  EXPECT_EQ(shape.layers[0].heads_kv, 3);
  EXPECT_EQ(shape.layers[0].k_width, 64);
  EXPECT_EQ(shape.layers[0].v_width, 64);
  EXPECT_EQ(shape.layers[0].window, 0);
  EXPECT_TRUE(shape.notes.empty());
}

TEST(Shape, HeadCountKvDefaultsToHeadCount) {
  Builder builder;
  builder.String("general.architecture", "gpt2")
      .U32("gpt2.block_count", 2)
      .U32("gpt2.embedding_length", 128)
      .U32("gpt2.attention.head_count", 2);
  EXPECT_EQ(Shape(builder).value().layers[0].heads_kv, 2);
}

TEST(Shape, WidthsFromKeys) {
  Builder builder = Decoder("qwen3", 2, 1024, 16, 8);
  builder.U32("qwen3.attention.key_length", 128).U32("qwen3.attention.value_length", 96);
  const ModelShape shape = Shape(builder).value();
  EXPECT_EQ(shape.layers[1].k_width, 128);
  EXPECT_EQ(shape.layers[1].v_width, 96);
}

// LFM2 and its like: a layer without KV heads is recurrent.
TEST(Shape, HeadCountsByLayer) {
  Builder builder;
  builder.String("general.architecture", "lfm2").U32("lfm2.block_count", 4).U32("lfm2.embedding_length", 128);
  builder.U32("lfm2.attention.head_count", 4).Array<int32_t>("lfm2.attention.head_count_kv", ValueType::kI32, {0, 2, 0, 1});
  const ModelShape shape = Shape(builder).value();
  ASSERT_EQ(shape.layers.size(), 2u);
  EXPECT_EQ(shape.layers[0].layer, 1);
  EXPECT_EQ(shape.layers[0].heads_kv, 2);
  EXPECT_EQ(shape.layers[1].heads_kv, 1);
  ASSERT_EQ(shape.notes.size(), 1u);
  EXPECT_NE(shape.notes[0].find("2 of 4 layers"), std::string::npos);
}

TEST(Shape, IntervalOfFullAttention) {
  Builder builder = Decoder("qwen3next", 8, 128, 4, 2);
  EXPECT_EQ(Shape(builder).value().layers.size(), 2u);  // layers 3 and 7
  EXPECT_EQ(Shape(builder).value().layers[0].layer, 3);
  builder.U32("qwen3next.full_attention_interval", 2);
  EXPECT_EQ(Shape(builder).value().layers.size(), 4u);
}

TEST(Shape, SlidingWindows) {
  Builder gemma = Decoder("gemma3", 18, 640, 4, 1);
  EXPECT_EQ(Windowed(Shape(gemma).value()), 0);  // no key, no window
  gemma.U32("gemma3.attention.sliding_window", 512);
  const ModelShape shape = Shape(gemma).value();
  EXPECT_EQ(Windowed(shape), 15);
  EXPECT_EQ(shape.layers[5].window, 0);  // every sixth is full
  EXPECT_EQ(shape.layers[4].window, 512);

  Builder gpt_oss = Decoder("gpt-oss", 24, 2880, 64, 8);
  gpt_oss.U32("gpt-oss.attention.sliding_window", 128);
  EXPECT_EQ(Windowed(Shape(gpt_oss).value()), 12);
  EXPECT_EQ(Shape(gpt_oss).value().layers[0].window, 128);

  EXPECT_EQ(Windowed(Shape(Decoder("gemma2", 26, 2304, 8, 4)).value()), 13);   // 4096 without a key
  EXPECT_EQ(Windowed(Shape(Decoder("llama4", 48, 5120, 40, 8)).value()), 36);  // 8192 without a key
  EXPECT_EQ(Windowed(Shape(Decoder("exaone4", 30, 2048, 32, 8)).value()), 0);  // the small one has none
}

TEST(Shape, WindowPatterns) {
  Builder by_layer = Decoder("gemma4", 4, 512, 4, 2);
  by_layer.U32("gemma4.attention.sliding_window", 1024);
  by_layer.U32("gemma4.attention.key_length_swa", 64).U32("gemma4.attention.value_length_swa", 64);
  by_layer.Array<uint8_t>("gemma4.attention.sliding_window_pattern", ValueType::kBool, {1, 0, 1, 1});
  by_layer.U32("gemma4.attention.shared_kv_layers", 1);
  const ModelShape shape = Shape(by_layer).value();
  ASSERT_EQ(shape.layers.size(), 3u);
  EXPECT_EQ(Windowed(shape), 2);
  EXPECT_EQ(shape.layers[0].k_width, 64);
  EXPECT_EQ(shape.layers[1].k_width, 128);

  Builder period = Decoder("cohere2", 8, 512, 4, 2);
  period.U32("cohere2.attention.sliding_window", 4096).U32("cohere2.attention.sliding_window_pattern", 2);
  EXPECT_EQ(Windowed(Shape(period).value()), 4);

  Builder short_pattern = Decoder("gemma4", 4, 512, 4, 2);
  short_pattern.U32("gemma4.attention.sliding_window", 8);
  short_pattern.Array<uint8_t>("gemma4.attention.sliding_window_pattern", ValueType::kBool, {1});
  EXPECT_FALSE(Shape(short_pattern).ok());
}

TEST(Shape, WindowThatLlamaCppIgnoresIsNoted) {
  Builder builder = Decoder("phi3", 2, 128, 4, 2);
  builder.U32("phi3.attention.sliding_window", 2047);
  const ModelShape shape = Shape(builder).value();
  EXPECT_EQ(Windowed(shape), 0);
  EXPECT_EQ(shape.notes.size(), 1u);
}

TEST(Shape, LatentAttention) {
  Builder expanded = Decoder("deepseek2", 2, 2048, 16, 16);
  expanded.U32("deepseek2.attention.kv_lora_rank", 512)
      .U32("deepseek2.attention.key_length", 192)
      .U32("deepseek2.attention.value_length", 128);
  EXPECT_EQ(Shape(expanded).value().layers[0].v_width, 128);
  EXPECT_FALSE(Shape(expanded).value().mla);

  Builder latent = Decoder("deepseek2", 2, 2048, 16, 1);
  latent.U32("deepseek2.attention.kv_lora_rank", 512)
      .U32("deepseek2.attention.key_length", 576)
      .U32("deepseek2.attention.value_length", 512);
  latent.U32("deepseek2.attention.key_length_mla", 192).U32("deepseek2.attention.value_length_mla", 128);
  const ModelShape shape = Shape(latent).value();
  EXPECT_TRUE(shape.mla);
  EXPECT_EQ(shape.layers[0].k_width, 576);
  EXPECT_EQ(shape.layers[0].v_width, 0);
  EXPECT_NE(shape.notes[0].find("latent 512"), std::string::npos);
}

TEST(Shape, BlocksThatPredictFurtherTokensDoNotCount) {
  Builder builder = Decoder("glm4moe", 47, 128, 4, 2);
  builder.U32("glm4moe.nextn_predict_layers", 1);
  EXPECT_EQ(Shape(builder).value().layers.size(), 46u);
}

TEST(Shape, ModelsWithoutCache) {
  for (const char* architecture : {"bert", "mamba", "rwkv7", "deepseek4"}) {
    const Status status = Shape(Decoder(architecture, 2, 128, 4, 2)).status();
    EXPECT_EQ(status.code(), StatusCode::kUnsupported) << architecture;
    EXPECT_NE(status.message().find(architecture), std::string::npos);
  }
  EXPECT_EQ(Shape(Decoder("llama", 2, 128, 4, 0)).status().code(), StatusCode::kUnsupported);
}

TEST(Shape, MissingAndAbsurdKeysAreNamed) {
  EXPECT_NE(Shape(Builder()).status().message().find("general.architecture"), std::string::npos);
  Builder no_blocks;
  no_blocks.String("general.architecture", "llama");
  EXPECT_NE(Shape(no_blocks).status().message().find("llama.block_count"), std::string::npos);
  EXPECT_NE(Shape(Decoder("llama", 100000, 128, 4, 2)).status().message().find("100000"), std::string::npos);
  EXPECT_FALSE(Shape(Decoder("llama", 2, 128, 1000000, 2)).ok());
  // A download that has just begun: the message says that the file ends.
  const std::vector<uint8_t> bytes = Decoder("llama", 2, 128, 4, 2).Bytes();
  const Status status = ReadShape(ParseHeader(std::span(bytes.data(), 100)).value()).status();
  EXPECT_NE(status.message().find("file ends after 100 bytes"), std::string::npos) << status.message();
}

}  // namespace
}  // namespace swivel::gguf
