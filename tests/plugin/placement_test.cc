// Flags that decide where the cache lives and how it is read: each is served, or refused with the reason, or passes the plugin by with a
// line that says so. Nothing is bypassed in silence.
#include <gtest/gtest.h>

#include "player.h"

namespace swivel::plugin_test {
namespace {

const ModelKeys kFourLayers = ModelKeys("llama").Set("block_count", 4u);
constexpr const char* kNotOurs = "runs over a cache the plugin does not own (CPU)";

void Tell(Player& p) {
  p.Decode(0, 0, 290);
  for (int i = 0; i < 4; ++i) p.Decode(0, 290 + i, 1);
}

Played PlayWith(const char* spec, const Setting& setting) { return Compare(kFourLayers, spec, setting, Tell); }

TEST(Placement, FlashAttentionAutoIsOn) {
  Setting on, automatic;
  automatic.flash_attention = LLAMA_FLASH_ATTN_TYPE_AUTO;
  for (const KvCase& kv : kKvCases) {
    SCOPED_TRACE(kv.name);
    const Played expected = PlayWith(kv.spec, on), got = PlayWith(kv.spec, automatic);
    EXPECT_GT(got.attention, 0);
    EXPECT_EQ(got.attention, expected.attention);
    EXPECT_EQ(got.logits, expected.logits);
  }
}

TEST(Placement, ACacheKeptOnTheCpuIsSaid) {
  Setting setting;
  setting.change = [](llama_context_params* params) { params->offload_kqv = false; };
  for (const auto attention : {LLAMA_FLASH_ATTN_TYPE_ENABLED, LLAMA_FLASH_ATTN_TYPE_AUTO}) {
    setting.flash_attention = attention;
    const Played played = PlayWith("turbo4", setting);
    EXPECT_LT(played.error, 0.004);
    EXPECT_EQ(played.tensors, 0);
    EXPECT_NE(played.said.find(kNotOurs), std::string::npos) << played.said;
  }
}

TEST(Placement, NoLayerOffloadedIsSaid) {
  Setting setting;
  setting.gpu_layers = 0;
  const Played played = PlayWith("turbo4", setting);
  EXPECT_LT(played.error, 0.004);
  EXPECT_EQ(played.tensors, 0);
  EXPECT_NE(played.said.find(kNotOurs), std::string::npos) << played.said;
}

TEST(Placement, SomeLayersOffloadedAreCompressedAndTheRestIsSaid) {
  Setting setting;
  setting.gpu_layers = 3;  // the output and the last two layers
  for (const KvCase& kv : kKvCases) {
    SCOPED_TRACE(kv.name);
    const Played played = PlayWith(kv.spec, setting);
    EXPECT_LT(played.error, kv.bound);
    EXPECT_EQ(played.tensors, 4);
    EXPECT_EQ(played.packed_tensors, 4);
    EXPECT_GT(played.attention, 0);
    EXPECT_NE(played.said.find(kNotOurs), std::string::npos) << played.said;
  }
}

TEST(Placement, OperationsThatAreNotOffloadedMakeNoDifference) {
  Setting plain, without;
  without.change = [](llama_context_params* params) { params->op_offload = false; };
  const Played expected = PlayWith("balanced,window=32,calibration=self:128", plain), got = PlayWith("balanced,window=32,calibration=self:128", without);
  EXPECT_EQ(got.packed_tensors, 8);
  EXPECT_EQ(got.logits, expected.logits);
}

TEST(Placement, QuantizedTypesOfLlamaAreRefused) {
  for (const ggml_type type : {GGML_TYPE_Q8_0, GGML_TYPE_Q4_0, GGML_TYPE_BF16, GGML_TYPE_F32}) {
    for (const bool keys : {true, false}) {
      Setting setting;
      setting.change = [&](llama_context_params* params) { (keys ? params->type_k : params->type_v) = type; };
      const Played played = PlayWith("turbo4", setting);
      EXPECT_FALSE(played.served);
      const std::string line =
          std::string("swivel: -ct") + (keys ? "k " : "v ") + ggml_type_name(type) + " cannot be combined with the plugin";
      EXPECT_NE(played.said.find(line), std::string::npos) << played.said;
    }
  }
}

// Keys that are a large constant and a small signal, as Qwen2's bias makes them: what the default is for. A codec that spends its levels on
// the constant is far off here, so the test would see that.
TEST(KeyBias, IsWhatTheDefaultSubtracts) {
  const ModelKeys keys = ModelKeys("qwen2", 64).Set("embedding_length", 128u).KeyBias(300);
  const Played balanced = Compare(keys, "balanced,window=32,calibration=self:128", {}, Tell), plain = Compare(keys, "turbo3", {}, Tell);
  EXPECT_GT(balanced.packed_cells, 0);
  EXPECT_LT(balanced.error, 0.35);
  EXPECT_GT(plain.error, 2 * balanced.error) << balanced.error;
}

}  // namespace
}  // namespace swivel::plugin_test
