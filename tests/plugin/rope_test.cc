// Keys are cached after their rotation, so moving a sequence means rotating rows that may be packed: the K-shift, for every kind of rotary
// embedding that llama.cpp shifts, and self-extend, which divides positions.
#include <gtest/gtest.h>

#include "player.h"

namespace swivel::plugin_test {
namespace {

struct RopeCase {
  const char* name;
  ModelKeys keys;
  int layers = 2;
  std::function<void(llama_context_params*)> change = nullptr;
};

void PrintTo(const RopeCase& rope, std::ostream* out) { *out << rope.name; }

std::vector<RopeCase> RopeCases() {
  const auto yarn = [](llama_context_params* params) {
    params->rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_YARN;
    params->rope_freq_scale = 0.25f;
    params->yarn_ext_factor = 1.0f;
    params->yarn_orig_ctx = 128;
  };
  ModelKeys windows("gemma3");
  windows.Set("block_count", 6u).Set("attention.sliding_window", 96u).Set("rope.freq_base", 1e6f);
  return {
      {"Normal", ModelKeys("llama")},
      {"Neox", ModelKeys("qwen2")},
      {"PartOfTheWidth", ModelKeys("stablelm").Set("rope.dimension_count", 16u)},
      {"Linear", ModelKeys("llama"), 2,
       [](llama_context_params* params) {
         params->rope_scaling_type = LLAMA_ROPE_SCALING_TYPE_LINEAR;
         params->rope_freq_scale = 0.5f;
       }},
      {"Yarn", ModelKeys("llama"), 2, yarn},
      {"YarnNeox", ModelKeys("qwen2"), 2, yarn},
      {"FactorsOfTheModel", ModelKeys("phi3").Set("rope.scaling.original_context_length", 128u)},
      {"TwoBasesAndWindows", windows, 6},
  };
}

class Rope : public testing::TestWithParam<std::tuple<RopeCase, KvCase>> {
 protected:
  // A shift reads and writes keys as f16, so a lossy cache rounds them once more: half as much error again.
  void Check(const Setting& change, const Story& story, int shifts) {
    const auto& [rope, kv] = GetParam();
    Setting setting = change;
    setting.change = rope.change;
    KvCase looser = kv;
    looser.bound *= 1.5;
    CheckStory(looser, rope.keys, setting, story, shifts * rope.layers);
  }
};
INSTANTIATE_TEST_SUITE_P(Kv, Rope, testing::Combine(testing::ValuesIn(RopeCases()), testing::ValuesIn(kKvCases)),
                         [](const auto& test) { return std::string(std::get<0>(test.param).name) + "_" + std::get<1>(test.param).name; });

// llama.cpp's context shift: the oldest part goes, what follows it moves up.
TEST_P(Rope, AContextShift) {
  Check(
      {},
      [](Player& p) {
        p.Decode(0, 0, 350);
        ASSERT_TRUE(llama_memory_can_shift(p.memory()));
        ASSERT_TRUE(llama_memory_seq_rm(p.memory(), 0, 4, 180));
        llama_memory_seq_add(p.memory(), 0, 180, -1, -176);
        p.Decode(0, 174, 100, 1);
        p.Decode(0, 274, 1, 1);
      },
      1);
}

TEST_P(Rope, SeveralShiftsOfSequencesInStreams) {
  Setting setting;
  setting.num_sequences = 2;
  setting.unified = false;
  Check(
      setting,
      [](Player& p) {
        p.DecodeEach({0, 1}, 0, 200);
        for (int round = 0; round < 3; ++round) {
          const int sequence = round % 2;
          ASSERT_TRUE(llama_memory_seq_rm(p.memory(), sequence, 10, 60));
          llama_memory_seq_add(p.memory(), sequence, 60, -1, -50);
          p.Decode(sequence, 150, 50, round + 1);
        }
        p.DecodeBeams({0, 1}, 200);
      },
      3);
}

// Self-extend: blocks of positions are grouped (divided), the rest moves after them.
TEST_P(Rope, SelfExtend) {
  Check(
      {},
      [](Player& p) {
        p.Decode(0, 0, 256);
        llama_memory_seq_div(p.memory(), 0, 0, 128, 4);
        llama_memory_seq_add(p.memory(), 0, 128, -1, -96);
        p.Decode(0, 160, 60, 1);
        p.Decode(0, 220, 1, 1);
      },
      1);
}

// Several positions a token (M-RoPE): llama.cpp does not shift these, and says so.
TEST(RopeOfSeveralPositions, IsServedAndNotShifted) {
  const ModelKeys keys = ModelKeys("qwen2vl").Set("rope.dimension_sections", std::vector<uint32_t>{8, 4, 4, 0});
  for (const KvCase& kv : kKvCases) {
    SCOPED_TRACE(kv.name);
    CheckStory(kv, keys, {}, [](Player& p) {
      EXPECT_FALSE(llama_memory_can_shift(p.memory()));
      p.Decode(0, 0, 300);
      for (int i = 0; i < 5; ++i) p.Decode(0, 300 + i, 1);
    });
  }
}

}  // namespace
}  // namespace swivel::plugin_test
