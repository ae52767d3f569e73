// What hosts do with sequences between batches: drop, keep, copy, use cells again. The plugin never sees most of it, only cells that are
// written anew and masks that have changed.
#include <gtest/gtest.h>

#include "player.h"

namespace swivel::plugin_test {
namespace {

class Sequences : public testing::TestWithParam<KvCase> {
 protected:
  Played Check(const Setting& setting, const Story& story) { return CheckStory(GetParam(), ModelKeys("llama"), setting, story); }
};
INSTANTIATE_TEST_SUITE_P(Kv, Sequences, testing::ValuesIn(kKvCases), KvCaseName);

TEST_P(Sequences, PromptAndTokensAfterIt) {
  const Played played = Check({}, [](Player& p) {
    p.Decode(0, 0, 300);
    for (int i = 0; i < 40; ++i) p.Decode(0, 300 + i, 1);
  });
  EXPECT_EQ(played.attention, 2 * (3 + 40)) << "2 layers; the prompt is three micro-batches";
}

TEST_P(Sequences, TheEndIsDroppedAndWrittenAnew) {
  Check({}, [](Player& p) {
    p.Decode(0, 0, 290);
    for (int round = 1; round < 4; ++round) {
      ASSERT_TRUE(llama_memory_seq_rm(p.memory(), 0, 200 - 60 * round, -1));
      p.Decode(0, 200 - 60 * round, 150, round);
    }
    p.Decode(0, 170, 60, 5);
  });
}

TEST_P(Sequences, AHoleIsFilledByAnotherSequence) {
  Setting setting;
  setting.num_sequences = 2;
  Check(setting, [](Player& p) {
    p.Decode(0, 0, 300);
    ASSERT_TRUE(llama_memory_seq_rm(p.memory(), 0, 100, 260));
    p.Decode(1, 0, 200, 3);
    p.Decode(0, 300, 20);
    p.Decode(1, 200, 20, 3);
  });
}

TEST_P(Sequences, OneIsKept) {
  Setting setting;
  setting.num_sequences = 3;
  Check(setting, [](Player& p) {
    p.DecodeEach({0, 1, 2}, 0, 90);
    llama_memory_seq_keep(p.memory(), 1);
    p.Decode(1, 90, 180, 0);
    llama_memory_seq_rm(p.memory(), 1, -1, -1);
    p.Decode(2, 0, 200, 2);
  });
}

TEST_P(Sequences, ACopyInOneStreamSharesItsCells) {
  Setting setting;
  setting.num_sequences = 4;
  Check(setting, [](Player& p) {
    p.Decode(0, 0, 200);
    for (int s = 1; s < 4; ++s) llama_memory_seq_cp(p.memory(), 0, s, -1, -1);
    for (int i = 0; i < 40; ++i) p.DecodeBeams({0, 1, 2, 3}, 200 + i);
  });
}

TEST_P(Sequences, ACopyToAnotherStreamDiverges) {
  Setting setting;
  setting.num_sequences = 4;
  setting.unified = false;
  Check(setting, [](Player& p) {
    p.Decode(0, 0, 200);
    for (int s = 1; s < 4; ++s) llama_memory_seq_cp(p.memory(), 0, s, -1, -1);
    for (int i = 0; i < 40; ++i) p.DecodeBeams({0, 1, 2, 3}, 200 + i);
    // The target held other rows before.
    llama_memory_seq_rm(p.memory(), 2, -1, -1);
    llama_memory_seq_cp(p.memory(), 1, 2, -1, -1);
    for (int i = 0; i < 40; ++i) p.DecodeBeams({1, 2, 3}, 240 + i);
  });
}

// Beam search: the worst beam is dropped and the best one copied, again and again.
TEST_P(Sequences, BeamsAreReplaced) {
  for (const bool unified : {true, false}) {
    SCOPED_TRACE(unified ? "unified" : "a stream each");
    Setting setting;
    setting.num_sequences = 3;
    setting.unified = unified;
    Check(setting, [](Player& p) {
      p.Decode(0, 0, 180);
      for (int s = 1; s < 3; ++s) llama_memory_seq_cp(p.memory(), 0, s, -1, -1);
      for (int step = 0; step < 60; ++step) {
        p.DecodeBeams({0, 1, 2}, 180 + step);
        if (step % 7 != 6) continue;
        const int worst = step % 3, best = (step + 1) % 3;
        ASSERT_TRUE(llama_memory_seq_rm(p.memory(), worst, -1, -1));
        llama_memory_seq_cp(p.memory(), best, worst, -1, -1);
      }
    });
  }
}

// A server's slot: the next request shares a prefix with the last one.
TEST_P(Sequences, ARequestGoesOnFromTheCommonPrefix) {
  Setting setting;
  setting.num_sequences = 2;
  setting.num_cells = 768;
  Check(setting, [](Player& p) {
    for (int request = 0; request < 5; ++request) {
      const int slot = request % 2, common = request < 2 ? 0 : 96;
      ASSERT_TRUE(llama_memory_seq_rm(p.memory(), slot, common, -1));
      if (common == 0) p.Decode(slot, 0, 96);
      p.Decode(slot, 96, 180, request);
      for (int i = 0; i < 5; ++i) p.Decode(slot, 276 + i, 1, request);
    }
  });
}

TEST_P(Sequences, TheMemoryIsClearedWithAndWithoutItsData) {
  Check({}, [](Player& p) {
    for (const bool data : {false, true, false}) {
      p.Decode(0, 0, 300, data);
      llama_memory_clear(p.memory(), data);
      p.Decode(0, 0, 200, 2);
      p.Decode(0, 200, 1, 2);
      llama_memory_clear(p.memory(), data);
    }
    p.Decode(0, 0, 300, 4);
    p.Decode(0, 300, 1, 4);
  });
}

}  // namespace
}  // namespace swivel::plugin_test
