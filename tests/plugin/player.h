// A story is what a host does with a context: decodes, moves and drops sequences, saves and restores. It is played once on llama.cpp's own
// f16 cache and once on the plugin's, and the logits are compared.
#ifndef SWIVEL_TESTS_PLUGIN_PLAYER_H_
#define SWIVEL_TESTS_PLUGIN_PLAYER_H_

#include <gtest/gtest.h>

#include <functional>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "random_model.h"

namespace swivel::plugin_test {

struct Setting {
  uint32_t num_cells = 512;
  uint32_t num_sequences = 1;
  uint32_t micro_batch = 128;
  bool unified = true;  // one stream for all sequences
  int gpu_layers = 99;  // of the model that has the plugin
  llama_flash_attn_type flash_attention = LLAMA_FLASH_ATTN_TYPE_ENABLED;
  std::function<void(llama_context_params*)> change;
};

class Player {
 public:
  // `model` must outlive this. ok() is false when there is no context.
  Player(llama_model* model, Setting setting);
  bool ok() const { return context_ != nullptr; }
  llama_context* context() const { return context_.get(); }
  llama_memory_t memory() const { return llama_get_memory(context_.get()); }
  const Setting& setting() const { return setting_; }

  // Appends `count` tokens to a sequence from `position` on, and the logits of all of them to logits(). Which tokens: a function of `text`
  // and the position.
  void Decode(int sequence, int position, int count, int text = 0);
  // The same tokens for several sequences in one batch.
  void DecodeEach(const std::vector<int>& sequences, int position, int count);
  // One token for every sequence, of its own text.
  void DecodeBeams(const std::vector<int>& sequences, int position);
  // Feeds a batch as it is and takes the logits of its rows.
  void Feed(const llama_batch& batch);

  std::vector<uint8_t> Save(int sequence) const;                 // -1: the whole context
  size_t Restore(int sequence, std::span<const uint8_t> state);  // bytes read, 0: refused

  // Starts a new context of the same kind; the old one is gone.
  void StartAgain();

  std::vector<float> logits;

 private:
  llama_model* model_;
  Setting setting_;
  ContextPtr context_;
};

using Story = std::function<void(Player&)>;

// What the plugin counted, summed over its caches, when the story ended.
struct Played {
  std::vector<float> logits;
  double error = 0;  // root of the mean squared error of all logits over their spread
  int64_t attention = 0, set_rows = 0, shadow = 0;
  int64_t packed_cells = 0;  // of staged caches
  int64_t packed_tensors = 0, tensors = 0;
  std::string said;    // stderr
  bool served = true;  // false: no context with the plugin; `said` has the reason
};

// Plays `story` on both caches of the model that `keys` describe.
Played Compare(const ModelKeys& keys, const std::string& spec, const Setting& setting, const Story& story);

// Root of the mean squared difference of a and b over the standard deviation of b; infinite when they do not match in size or finiteness.
double SpreadError(const std::vector<float>& a, const std::vector<float>& b);

// One cache of each kind, and what it may cost in logits: exact rows at once, exact rows staged (both differ from stock only by the
// rounding of ggml's own kernel), a plain codec, and the default's way of packing with a window short enough for small tests.
struct KvCase {
  const char* name;
  const char* spec;
  double bound;
  bool staged;
};
inline const KvCase kKvCases[] = {{"f16", "f16", 0.004, false},
                                  {"staged_f16", "k=f16,v=f16,sinks=4,window=32", 0.004, true},
                                  {"turbo4", "turbo4", 0.25, false},
                                  {"balanced", "balanced,window=32,calibration=self:128", 0.25, true}};
inline void PrintTo(const KvCase& kv, std::ostream* out) { *out << kv.name; }
inline std::string KvCaseName(const testing::TestParamInfo<KvCase>& kv) { return kv.param.name; }

// Plays on both caches and checks what holds for every story: the error is within the bound of the case, all rows were the plugin's, its
// attention ran, groups were packed where the case says so. `shadow`: nodes that are expected to see f16 images.
Played CheckStory(const KvCase& kv, const ModelKeys& keys, const Setting& setting, const Story& story, int64_t shadow = 0);

}  // namespace swivel::plugin_test

#endif  // SWIVEL_TESTS_PLUGIN_PLAYER_H_
