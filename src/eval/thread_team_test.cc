#include "eval/thread_team.h"

#include <gtest/gtest.h>

#include <chrono>
#include <vector>

namespace swivel {
namespace {

TEST(ThreadTeam, EveryThreadWorksOnceAndRunWaits) {
  for (const int size : {1, 2, 5}) {
    ThreadTeam team(size);
    ASSERT_EQ(team.size(), size);
    std::vector<int> calls(static_cast<size_t>(size), 0);  // not atomic: Run orders them
    for (int run = 0; run < 200; ++run) team.Run([&](int thread) { ++calls[static_cast<size_t>(thread)]; });
    EXPECT_EQ(calls, std::vector<int>(static_cast<size_t>(size), 200));
  }
}

TEST(ThreadTeam, WakesAfterItSleptAndWaitsForASlowThread) {
  ThreadTeam team(2);
  for (int run = 0; run < 2; ++run) {
    int done = 0;
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    team.Run([&](int thread) {
      if (thread == 0) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(20));
      done = 1;
    });
    EXPECT_EQ(done, 1);
  }
}

TEST(ThreadTeam, EndsWithoutARun) { ThreadTeam team(3); }

}  // namespace
}  // namespace swivel
