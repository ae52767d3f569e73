#include "player.h"

#include <gtest/gtest.h>

#include <cmath>
#include <utility>

#include "harness.h"

namespace swivel::plugin_test {
namespace {

llama_token TokenAt(int text, int position) {
  return static_cast<llama_token>((7919u * static_cast<uint32_t>(position) + 131u * static_cast<uint32_t>(text) +
                                   static_cast<uint32_t>(position) * static_cast<uint32_t>(position) * 31u) %
                                  kVocabulary);
}

class Batch1 {
 public:
  explicit Batch1(int capacity) : batch(llama_batch_init(capacity, 0, 1)) {}
  ~Batch1() { llama_batch_free(batch); }
  Batch1(const Batch1&) = delete;
  Batch1& operator=(const Batch1&) = delete;
  void Add(llama_token token, int position, int sequence) {
    const int i = batch.n_tokens++;
    batch.token[i] = token;
    batch.pos[i] = position;
    batch.n_seq_id[i] = 1;
    batch.seq_id[i][0] = sequence;
    batch.logits[i] = 1;
  }
  llama_batch batch;
};

int64_t Sum(const nlohmann::json& caches, const char* key) {
  int64_t sum = 0;
  for (const auto& cache : caches) sum += cache.value(key, int64_t{0});
  return sum;
}

}  // namespace

Player::Player(llama_model* model, Setting setting) : model_(model), setting_(std::move(setting)) { StartAgain(); }

void Player::StartAgain() {
  context_.reset();
  llama_context_params params = llama_context_default_params();
  params.n_ctx = setting_.num_cells * (setting_.unified ? 1 : setting_.num_sequences);
  params.n_batch = 1024;
  params.n_ubatch = setting_.micro_batch;
  params.n_seq_max = setting_.num_sequences;
  params.n_threads = params.n_threads_batch = 1;
  params.flash_attn_type = setting_.flash_attention;
  params.kv_unified = setting_.unified;
  if (setting_.change) setting_.change(&params);
  context_.reset(llama_init_from_model(model_, params));
}

void Player::Feed(const llama_batch& batch) {
  if (!ok()) return;
  const int result = llama_decode(context_.get(), batch);
  EXPECT_EQ(result, 0) << "llama_decode";
  if (result != 0) return;
  for (int i = 0; i < batch.n_tokens; ++i) {
    const float* row = llama_get_logits_ith(context_.get(), i);
    ASSERT_NE(row, nullptr);
    logits.insert(logits.end(), row, row + llama_vocab_n_tokens(llama_model_get_vocab(model_)));
  }
}

void Player::Decode(int sequence, int position, int count, int text) {
  Batch1 tokens(count);
  for (int i = 0; i < count; ++i) tokens.Add(TokenAt(text, position + i), position + i, sequence);
  Feed(tokens.batch);
}

void Player::DecodeEach(const std::vector<int>& sequences, int position, int count) {
  Batch1 tokens(count * static_cast<int>(sequences.size()));
  for (const int sequence : sequences) {
    for (int i = 0; i < count; ++i) tokens.Add(TokenAt(0, position + i), position + i, sequence);
  }
  Feed(tokens.batch);
}

void Player::DecodeBeams(const std::vector<int>& sequences, int position) {
  Batch1 tokens(static_cast<int>(sequences.size()));
  for (const int sequence : sequences) tokens.Add(TokenAt(sequence + 1, position), position, sequence);
  Feed(tokens.batch);
}

std::vector<uint8_t> Player::Save(int sequence) const {
  std::vector<uint8_t> state(sequence < 0 ? llama_state_get_size(context()) : llama_state_seq_get_size(context(), sequence));
  const size_t size = sequence < 0 ? llama_state_get_data(context(), state.data(), state.size())
                                   : llama_state_seq_get_data(context(), state.data(), state.size(), sequence);
  EXPECT_EQ(size, state.size());
  return state;
}

size_t Player::Restore(int sequence, std::span<const uint8_t> state) {
  return sequence < 0 ? llama_state_set_data(context(), state.data(), state.size())
                      : llama_state_seq_set_data(context(), state.data(), state.size(), sequence);
}

double SpreadError(const std::vector<float>& a, const std::vector<float>& b) {
  if (a.size() != b.size() || a.empty()) return INFINITY;
  double mean = 0, difference = 0, spread = 0;
  for (const float x : b) mean += x;
  mean /= static_cast<double>(b.size());
  for (size_t i = 0; i < a.size(); ++i) {
    if (!std::isfinite(a[i]) || !std::isfinite(b[i])) return INFINITY;
    difference += (static_cast<double>(a[i]) - b[i]) * (static_cast<double>(a[i]) - b[i]);
    spread += (b[i] - mean) * (b[i] - mean);
  }
  return std::sqrt(difference / spread);
}

Played Compare(const ModelKeys& keys, const std::string& spec, const Setting& setting, const Story& story) {
  Played played;
  llama_log_set([](ggml_log_level, const char*, void*) {}, nullptr);
  EXPECT_NE(PluginRegistry(), nullptr);
  EXPECT_EQ(SetKv(spec), "");
  const auto play = [&](ggml_backend_dev_t device, const std::function<void(const Player&)>& finish) {
    const ModelPtr model = keys.Load(device, setting.gpu_layers);
    EXPECT_NE(model, nullptr) << "llama.cpp does not take a model of architecture " << keys.architecture();
    if (model == nullptr) return;
    Player player(model.get(), setting);
    if (player.ok()) story(player);
    finish(player);
  };
  std::vector<float> expected;
  play(nullptr, [&](const Player& player) {
    EXPECT_TRUE(player.ok());
    expected = player.logits;
  });
  played.said = CaptureStderr([&] {
    play(PluginDevice(), [&](const Player& player) {
      played.served = player.ok();
      if (!player.ok()) return;
      played.logits = player.logits;
      played.error = SpreadError(player.logits, expected);
      const auto caches = nlohmann::json::parse(Report())["caches"];
      played.attention = Sum(caches, "flash_attention");
      played.set_rows = Sum(caches, "set_rows");
      played.shadow = Sum(caches, "shadow");
      played.packed_cells = Sum(caches, "packed_cells");
      played.packed_tensors = Sum(caches, "packed_tensors");
      played.tensors = Sum(caches, "tensors");
    });
  });
  return played;
}

Played CheckStory(const KvCase& kv, const ModelKeys& keys, const Setting& setting, const Story& story, int64_t shadow) {
  const Played played = Compare(keys, kv.spec, setting, story);
  EXPECT_TRUE(played.served) << played.said;
  EXPECT_LT(played.error, kv.bound);
  EXPECT_GT(played.attention, 0);
  EXPECT_EQ(played.packed_tensors, played.tensors) << played.said;
  EXPECT_EQ(played.shadow, shadow);
  if (kv.staged) {
    EXPECT_GT(played.packed_cells, 0) << "something was packed, not only kept exact";
  }
  return played;
}

}  // namespace swivel::plugin_test
