// Kinds of models whose attention or memory is more than a causal cache: what the plugin serves of them and what it leaves alone.
#include <gtest/gtest.h>

#include <numeric>

#include "harness.h"
#include "player.h"

namespace swivel::plugin_test {
namespace {

ModelKeys MixtureOfExperts(ModelKeys keys) {
  return keys.Set("expert_count", 2u).Set("expert_used_count", 2u).Set("expert_feed_forward_length", 96u);
}

struct Architecture {
  const char* name;
  ModelKeys keys;
};

void PrintTo(const Architecture& architecture, std::ostream* out) { *out << architecture.name; }

std::vector<Architecture> Served() {
  const auto windows = [](const char* architecture, uint32_t layers) {
    return ModelKeys(architecture).Set("block_count", layers).Set("attention.sliding_window", 96u);
  };
  return {
      {"SlidingWindow", windows("gemma3", 6)},
      {"SoftCapAndWindow", windows("gemma2", 2).Set("attn_logit_softcapping", 4.0f).Set("final_logit_softcapping", 30.0f)},
      {"SinkLogitsAndWindow", MixtureOfExperts(windows("gpt-oss", 2))},
      {"LayersWithoutPositions", windows("cohere2", 4).Set("logit_scale", 1.0f)},
      {"Alibi", ModelKeys("bloom", 32, 2, 2)},
      {"AlibiOfThreeHeads", ModelKeys("mpt", 32, 3, 3).Set("embedding_length", 96u).Set("attention.max_alibi_bias", 8.0f)},
      {"LearnedPositions", ModelKeys("gpt2", 32, 2, 2)},
      {"OneKvHead", ModelKeys("falcon", 32, 2, 1)},
      {"NormedKeys", ModelKeys("qwen3", 64, 4, 2)},
      {"Multimodal", ModelKeys("qwen2vl").Set("rope.dimension_sections", std::vector<uint32_t>{8, 4, 4, 0})},
  };
}

class Architectures : public testing::TestWithParam<std::tuple<Architecture, KvCase>> {
 protected:
  void Check(const Setting& setting, const Story& story) {
    const auto& [architecture, kv] = GetParam();
    CheckStory(kv, architecture.keys, setting, story);
  }
};
INSTANTIATE_TEST_SUITE_P(Kv, Architectures, testing::Combine(testing::ValuesIn(Served()), testing::ValuesIn(kKvCases)),
                         [](const auto& test) { return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name; });

TEST_P(Architectures, IsServed) {
  Setting setting;
  setting.num_cells = 768;
  Check(setting, [](Player& p) {
    p.Decode(0, 0, 300);
    for (int i = 0; i < 30; ++i) p.Decode(0, 300 + i, 1);
    p.Decode(0, 330, 300, 1);
    p.Decode(0, 630, 1, 1);
  });
}

TEST_P(Architectures, IsServedInSeveralStreams) {
  Setting setting;
  setting.num_sequences = 3;
  setting.unified = false;
  Check(setting, [](Player& p) {
    p.DecodeEach({0, 1, 2}, 0, 200);
    for (int i = 0; i < 40; ++i) p.DecodeBeams({0, 2}, 200 + i);
    p.Decode(1, 200, 120, 1);
    p.DecodeBeams({1}, 320);
  });
}

// Latent attention keeps K and V in one row. Refused, with the reason, before anything runs.
TEST(Latent, IsRefused) {
  const ModelKeys keys = MixtureOfExperts(ModelKeys("deepseek2", 576, 1, 1)
                                              .Set("attention.value_length", 512u)
                                              .Set("attention.key_length_mla", 192u)
                                              .Set("attention.value_length_mla", 128u)
                                              .Set("attention.kv_lora_rank", 512u)
                                              .Set("attention.q_lora_rank", 64u)
                                              .Set("leading_dense_block_count", 1u)
                                              .Set("expert_shared_count", 1u)
                                              .Set("expert_gating_func", 2u)
                                              .Set("rope.dimension_count", 64u));
  for (const KvCase& kv : kKvCases) {
    const Played played = Compare(keys, kv.spec, {}, [](Player& p) { p.Decode(0, 0, 30); });
    EXPECT_FALSE(played.served);
    EXPECT_NE(played.said.find("multi-head latent attention"), std::string::npos) << played.said;
  }
}

// Attention with a bias on its logits (T5) is no flash attention: llama.cpp reads the cache by matrix products. It runs as ever, and a line
// says that nothing is compressed.
TEST(EncoderDecoder, RunsUncompressedAndSaysSo) {
  const ModelKeys keys = ModelKeys("t5", 32, 2, 2).Set("attention.relative_buckets_count", 8u).Set("decoder_start_token_id", 0u);
  for (const auto attention : {LLAMA_FLASH_ATTN_TYPE_ENABLED, LLAMA_FLASH_ATTN_TYPE_AUTO}) {
    Setting setting;
    setting.flash_attention = attention;
    for (const KvCase& kv : kKvCases) {
      const Played played = Compare(keys, kv.spec, setting, [](Player& p) {
        llama_token tokens[] = {1, 2, 3, 4, 5};
        EXPECT_EQ(llama_encode(p.context(), llama_batch_get_one(tokens, 5)), 0);
        p.Decode(0, 0, 40);
        for (int i = 0; i < 5; ++i) p.Decode(0, 40 + i, 1);
      });
      EXPECT_TRUE(played.served) << played.said;
      EXPECT_LT(played.error, 1e-3);
      EXPECT_EQ(played.packed_tensors, 0);
      EXPECT_NE(
          played.said.find("_l0' (f16), which is not compressed: the plugin needs flash attention, which some models cannot use (T5)"),
          std::string::npos)
          << played.said;
    }
  }
}

// Without flash attention nothing could be compressed although the model allows it: refused.
TEST(FlashAttentionOff, IsRefused) {
  Setting setting;
  setting.flash_attention = LLAMA_FLASH_ATTN_TYPE_DISABLED;
  for (const char* architecture : {"llama", "gpt2", "gemma3"}) {
    const Played played = Compare(ModelKeys(architecture, 32, 2, 2).Set("attention.sliding_window", 96u), "turbo4", setting,
                                  [](Player& p) { p.Decode(0, 0, 4); });
    EXPECT_FALSE(played.served) << architecture;
    EXPECT_NE(played.said.find("needs flash attention, which is off"), std::string::npos) << played.said;
  }
}

// The memory of recurrent layers is not a KV cache: it stays what it is, bit for bit.
struct Recurrent {
  const char* name;
  ModelKeys keys;
  bool has_attention;
};
void PrintTo(const Recurrent& recurrent, std::ostream* out) { *out << recurrent.name; }

std::vector<Recurrent> RecurrentModels() {
  const auto state = [](ModelKeys keys) {
    return keys.Set("ssm.conv_kernel", 4u).Set("ssm.inner_size", 128u).Set("ssm.state_size", 16u).Set("ssm.time_step_rank", 2u);
  };
  const std::vector<uint32_t> alternating = {2, 0};
  return {
      {"Mamba", state(ModelKeys("mamba")), false},
      {"Mamba2", state(ModelKeys("mamba2")).Set("ssm.group_count", 1u), false},
      {"Jamba", MixtureOfExperts(state(ModelKeys("jamba")).Set("attention.head_count_kv", alternating)), true},
      {"ShortConvolutions", ModelKeys("lfm2").Set("shortconv.l_cache", 3u).Set("attention.head_count_kv", alternating), true},
      {"AttentionBesideMamba", state(ModelKeys("falcon-h1", 32, 2, 2)).Set("ssm.group_count", 1u), true},
  };
}

class RecurrentMemory : public testing::TestWithParam<Recurrent> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RecurrentMemory, testing::ValuesIn(RecurrentModels()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(RecurrentMemory, IsLeftAlone) {
  Setting setting;
  setting.num_sequences = 2;
  const Story story = [](Player& p) {
    p.DecodeEach({0, 1}, 0, 180);
    for (int i = 0; i < 10; ++i) p.DecodeBeams({0, 1}, 180 + i);
    const auto state = p.Save(0);
    p.Decode(0, 190, 20, 3);
    ASSERT_TRUE(llama_memory_seq_rm(p.memory(), 0, -1, -1));
    ASSERT_EQ(p.Restore(0, state), state.size());
    EXPECT_EQ(p.Save(0), state);
    p.Decode(0, 190, 20, 4);
  };
  const auto& [name, keys, has_attention] = GetParam();
  for (const bool unified : {true, false}) {
    SCOPED_TRACE(unified ? "unified" : "a stream each");
    setting.unified = unified;
    for (const KvCase& kv : kKvCases) {
      SCOPED_TRACE(kv.name);
      if (has_attention) {
        CheckStory(kv, keys, setting, story);
      } else {
        const Played played = Compare(keys, kv.spec, setting, story);
        EXPECT_EQ(played.error, 0);
        EXPECT_EQ(played.tensors, 0);
      }
    }
  }
}

std::vector<float> Embedding(Player& p, int count) {
  std::vector<llama_token> tokens(static_cast<size_t>(count));
  std::iota(tokens.begin(), tokens.end(), 1);
  const auto run = llama_get_memory(p.context()) == nullptr ? llama_encode : llama_decode;
  if (run(p.context(), llama_batch_get_one(tokens.data(), count)) != 0) return {};
  const float* row = llama_get_embeddings_seq(p.context(), 0);
  return row == nullptr ? std::vector<float>() : std::vector<float>(row, row + llama_model_n_embd(llama_get_model(p.context())));
}

// Encoders keep no cache: the plugin's device computes what the CPU computes.
TEST(Embeddings, OfEncodersAreTheSame) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  Setting pooled;
  pooled.micro_batch = 512;
  pooled.change = [](llama_context_params* params) {
    params->embeddings = true;
    params->pooling_type = LLAMA_POOLING_TYPE_MEAN;
  };
  for (const char* architecture : {"bert", "nomic-bert", "gemma-embedding"}) {
    SCOPED_TRACE(architecture);
    const ModelKeys keys = ModelKeys(architecture, 32, 2, 2)
                               .Set("block_count", 6u)
                               .Set("attention.sliding_window", 96u)
                               .Set("tokenizer.ggml.token_type_count", 2u);
    const ModelPtr stock_model = keys.Load(nullptr), our_model = keys.Load(PluginDevice());
    ASSERT_TRUE(stock_model != nullptr && our_model != nullptr);
    Player stock(stock_model.get(), pooled), ours(our_model.get(), pooled);
    ASSERT_TRUE(stock.ok() && ours.ok());
    const auto expected = Embedding(stock, 90), got = Embedding(ours, 90);
    ASSERT_FALSE(expected.empty());
    EXPECT_LT(SpreadError(got, expected), 1e-5);
  }
  EXPECT_TRUE(nlohmann::json::parse(Report())["caches"].empty());
}

// A decoder that embeds has a cache; it stands beside that of a model that generates.
TEST(Embeddings, BesideGeneration) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const ModelKeys encoder = ModelKeys("llama").Set("attention.causal", false).Set("pooling_type", uint32_t{LLAMA_POOLING_TYPE_MEAN});
  Setting pooled;
  pooled.change = [](llama_context_params* params) {
    params->embeddings = true;
    params->pooling_type = LLAMA_POOLING_TYPE_MEAN;
    params->n_ubatch = 512;
  };
  const ModelPtr stock_encoder = encoder.Load(nullptr), our_encoder = encoder.Load(PluginDevice()),
                 generator = ModelKeys("qwen2").Load(PluginDevice());
  ASSERT_EQ(SetKv("balanced,window=32,calibration=self:128"), "");
  Player stock(stock_encoder.get(), pooled), ours(our_encoder.get(), pooled), writer(generator.get(), {});
  ASSERT_TRUE(stock.ok() && ours.ok() && writer.ok());
  writer.Decode(0, 0, 200);
  const auto expected = Embedding(stock, 90), got = Embedding(ours, 90);
  EXPECT_LT(SpreadError(got, expected), 0.25);
  writer.Decode(0, 200, 1);
  EXPECT_GT(nlohmann::json::parse(Report())["caches"].size(), 0u);
}

// A draft model and the model it drafts for, with settings of their own, in turns.
TEST(TwoModels, KeepTheirSettings) {
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  const ModelKeys main_keys = ModelKeys("llama", 64, 4, 2), draft_keys = ModelKeys("qwen2");
  const ModelPtr main = main_keys.Load(PluginDevice()), draft = draft_keys.Load(PluginDevice());
  const ModelPtr stock_main = main_keys.Load(nullptr), stock_draft = draft_keys.Load(nullptr);
  ASSERT_EQ(SetKv("balanced,window=32,calibration=self:128"), "");
  Player ours(main.get(), {});
  ASSERT_EQ(SetKv("turbo4"), "");
  Player our_draft(draft.get(), {});
  ASSERT_EQ(SetKv("q8_0"), "");  // of contexts that come later
  Player stock(stock_main.get(), {}), stock_drafter(stock_draft.get(), {});
  const auto draft_and_verify = [](Player& target, Player& drafter) {
    target.Decode(0, 0, 200);
    drafter.Decode(0, 0, 200);
    for (int step = 0; step < 20; ++step) {
      const int at = 200 + 3 * step;
      for (int i = 0; i < 5; ++i) drafter.Decode(0, at + i, 1, step);
      target.Decode(0, at, 5, step);
      // Three of five are accepted.
      llama_memory_seq_rm(target.memory(), 0, at + 3, -1);
      llama_memory_seq_rm(drafter.memory(), 0, at + 3, -1);
    }
  };
  draft_and_verify(ours, our_draft);
  draft_and_verify(stock, stock_drafter);
  EXPECT_LT(SpreadError(ours.logits, stock.logits), 0.25);
  EXPECT_LT(SpreadError(our_draft.logits, stock_drafter.logits), 0.25);
  const auto caches = nlohmann::json::parse(Report())["caches"];
  ASSERT_EQ(caches.size(), 2u);
  EXPECT_NE(caches[0]["context"], caches[1]["context"]);
  EXPECT_NE(caches[0]["kv"].get<std::string>().find("window=32"), std::string::npos);
  EXPECT_EQ(caches[1]["kv"], "k=turbo4,v=turbo4");
}

}  // namespace
}  // namespace swivel::plugin_test
