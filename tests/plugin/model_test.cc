// A real model through libllama. SWIVEL_MODEL_S names SmolLM2-135M (tools/model S); without it these tests are skipped.
#include <gtest/gtest.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "harness.h"
#include "llama.h"

namespace swivel::plugin_test {
namespace {

std::string host_log;

struct ModelDeleter {
  void operator()(llama_model* model) const { llama_model_free(model); }
  void operator()(llama_context* context) const { llama_free(context); }
};
using ModelPtr = std::unique_ptr<llama_model, ModelDeleter>;
using ContextPtr = std::unique_ptr<llama_context, ModelDeleter>;

class Model : public testing::Test {
 protected:
  void SetUp() override {
    const char* path = std::getenv("SWIVEL_MODEL_S");
    if (path == nullptr) GTEST_SKIP() << "SWIVEL_MODEL_S is not set; try SWIVEL_MODEL_S=$(tools/model S)";
    ASSERT_NE(PluginRegistry(), nullptr);
    llama_log_set([](ggml_log_level, const char* text, void*) { host_log += text; }, nullptr);
    host_log.clear();
    devices_[0] = PluginDevice();
    llama_model_params params = llama_model_default_params();
    params.devices = devices_;
    model.reset(llama_model_load_from_file(path, params));
    ASSERT_NE(model, nullptr);
  }

  ContextPtr NewContext(int sequences, llama_flash_attn_type attention = LLAMA_FLASH_ATTN_TYPE_AUTO, ggml_type type = GGML_TYPE_F16) {
    llama_context_params params = llama_context_default_params();
    params.n_ctx = 512 * static_cast<uint32_t>(sequences);
    params.n_seq_max = static_cast<uint32_t>(sequences);
    params.n_threads = params.n_threads_batch = 1;  // spinning threads are slow on a loaded machine
    params.flash_attn_type = attention;
    params.type_k = type;
    return ContextPtr(llama_init_from_model(model.get(), params));
  }

  // Greedy continuation of one prompt in every sequence at once.
  std::vector<std::vector<llama_token>> Generate(llama_context* context, int sequences, int tokens) {
    const std::string prompt = "The history of the city of Rome begins";
    const llama_vocab* vocab = llama_model_get_vocab(model.get());
    std::vector<llama_token> ids(64);
    ids.resize(static_cast<size_t>(llama_tokenize(vocab, prompt.data(), static_cast<int>(prompt.size()), ids.data(), 64, true, false)));
    llama_batch batch = llama_batch_init(64 * sequences, 0, 1);
    std::vector<std::vector<llama_token>> text(static_cast<size_t>(sequences));
    const auto add = [&](llama_token id, int position, int sequence, bool wanted) {
      batch.token[batch.n_tokens] = id;
      batch.pos[batch.n_tokens] = position;
      batch.n_seq_id[batch.n_tokens] = 1;
      batch.seq_id[batch.n_tokens][0] = sequence;
      batch.logits[batch.n_tokens++] = wanted;
    };
    for (int s = 0; s < sequences; ++s) {
      for (size_t i = 0; i < ids.size(); ++i) add(ids[i], static_cast<int>(i), s, i + 1 == ids.size());
    }
    for (int step = 0; step < tokens; ++step) {
      EXPECT_EQ(llama_decode(context, batch), 0);
      std::vector<llama_token> best;
      for (int s = 0; s < sequences; ++s) {
        const float* logits = llama_get_logits_ith(context, step == 0 ? (s + 1) * static_cast<int>(ids.size()) - 1 : s);
        best.push_back(static_cast<llama_token>(std::max_element(logits, logits + llama_vocab_n_tokens(vocab)) - logits));
      }
      batch.n_tokens = 0;
      for (int s = 0; s < sequences; ++s) {
        text[static_cast<size_t>(s)].push_back(best[static_cast<size_t>(s)]);
        add(best[static_cast<size_t>(s)], static_cast<int>(ids.size()) + step, s, true);
      }
    }
    llama_batch_free(batch);
    return text;
  }

  ModelPtr model;

 private:
  ggml_backend_dev_t devices_[2] = {nullptr, nullptr};
};

TEST_F(Model, GeneratesInOneSplit) {
  SetKv("turbo4");
  ContextPtr context = NewContext(1);
  ASSERT_NE(context, nullptr);
  EXPECT_NE(host_log.find("splits = 1,"), std::string::npos) << host_log;
  EXPECT_NE(host_log.find("SWIVEL KV buffer size"), std::string::npos);
  const std::string said = CaptureStderr([&] { EXPECT_EQ(Generate(context.get(), 1, 16)[0].size(), 16u); });
  EXPECT_NE(said.find("swivel: KV cache 60 tensors, k=turbo4 v=turbo4, 4.25 bits per value, 3.0 MiB where f16 takes 11.2 MiB\n"),
            std::string::npos)
      << said;
  const auto cache = nlohmann::json::parse(Report())["caches"][0];
  EXPECT_EQ(cache["flash_attention"], 16 * 30);
  EXPECT_EQ(cache["shadow"], 0);
  context.reset();
  EXPECT_TRUE(nlohmann::json::parse(Report())["caches"].empty());
}

// S has 30 layers of 3 KV heads.
TEST_F(Model, SaysWhichOverridesMeetNothing) {
  const auto said_with = [&](const char* spec) {
    EXPECT_EQ(SetKv(spec), "");
    ContextPtr context = NewContext(1);
    return CaptureStderr([&] { Generate(context.get(), 1, 1); });
  };
  std::string said = said_with("turbo4,layer=28-30:q8_0,layer=0:k=f16");
  EXPECT_NE(said.find("swivel: WARNING: layer=28-30:q8_0 names layers or KV heads that this cache does not have"), std::string::npos) << said;
  EXPECT_NE(said.find("KV cache 60 tensors, k=turbo4 v=turbo4 layer=0:k=f16 layer=28-30:q8_0, "), std::string::npos) << said;
  said = said_with("balanced,layer=0/3:k=tcq4");
  EXPECT_NE(said.find("WARNING: layer=0/3:k=tcq4 names layers or KV heads"), std::string::npos) << said;
  said = said_with("balanced,layer=29:tcq4,layer=0/0-2:k=tcq4");
  EXPECT_EQ(said.find("WARNING: layer="), std::string::npos) << said;
}

TEST_F(Model, ParallelSequencesAgree) {
  SetKv("turbo4");
  ContextPtr one = NewContext(1), four = NewContext(4);
  ASSERT_NE(one, nullptr);
  ASSERT_NE(four, nullptr);
  const auto expected = Generate(one.get(), 1, 8)[0];
  for (const auto& text : Generate(four.get(), 4, 8)) EXPECT_EQ(text, expected);
}

TEST_F(Model, SavesAndRestoresASequence) {
  SetKv("turbo3");
  ContextPtr context = NewContext(2);
  ASSERT_NE(context, nullptr);
  const auto text = Generate(context.get(), 1, 8)[0];
  std::vector<uint8_t> first(llama_state_seq_get_size(context.get(), 0));
  ASSERT_EQ(llama_state_seq_get_data(context.get(), first.data(), first.size(), 0), first.size());
  ASSERT_NE(llama_state_seq_set_data(context.get(), first.data(), first.size(), 0), 0u);
  std::vector<uint8_t> second(first.size());
  ASSERT_EQ(llama_state_seq_get_data(context.get(), second.data(), second.size(), 0), second.size());
  EXPECT_EQ(first, second) << "restoring into the same place changes nothing";
}

TEST_F(Model, ShiftsItsContext) {
  SetKv("turbo4");
  ContextPtr context = NewContext(1);
  ASSERT_NE(context, nullptr);
  Generate(context.get(), 1, 8);
  llama_memory_t memory = llama_get_memory(context.get());
  ASSERT_TRUE(llama_memory_seq_rm(memory, 0, 2, 5));
  llama_memory_seq_add(memory, 0, 5, -1, -3);
  llama_token token = 1;
  ASSERT_EQ(llama_decode(context.get(), llama_batch_get_one(&token, 1)), 0);
  EXPECT_EQ(nlohmann::json::parse(Report())["caches"][0]["shadow"], 30);
}

TEST_F(Model, RefusedContextsAreNull) {
  SetKv("turbo4");
  std::string said = CaptureStderr([&] { EXPECT_EQ(NewContext(1, LLAMA_FLASH_ATTN_TYPE_DISABLED), nullptr); });
  EXPECT_NE(said.find("needs flash attention"), std::string::npos) << said;
  said = CaptureStderr([&] { EXPECT_EQ(NewContext(1, LLAMA_FLASH_ATTN_TYPE_AUTO, GGML_TYPE_Q8_0), nullptr); });
  EXPECT_NE(said.find("-ctk q8_0 cannot be combined"), std::string::npos) << said;
  EXPECT_NE(NewContext(1), nullptr) << "and the next one works";
}

}  // namespace
}  // namespace swivel::plugin_test
