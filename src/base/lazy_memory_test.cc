#include "base/lazy_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

namespace swivel {
namespace {

const size_t kPage = static_cast<size_t>(sysconf(_SC_PAGESIZE));

LazyMemory ReserveOrDie(size_t bytes) {
  StatusOr<LazyMemory> memory = LazyMemory::Reserve(bytes);
  EXPECT_TRUE(memory.ok()) << memory.status().message();
  return std::move(*memory);
}

TEST(LazyMemory, CommitsOnlyThePagesThatWereWritten) {
  // More than any machine that runs this has: reserving must not commit.
  LazyMemory memory = ReserveOrDie(size_t{1} << 40);
  EXPECT_EQ(memory.size(), size_t{1} << 40);
  memory.data()[0] = 1;
  memory.data()[memory.size() - 1] = 2;
  EXPECT_EQ(memory.data()[0] + memory.data()[memory.size() - 1], 3);
}

TEST(LazyMemory, ResidentBytesGrowWithUseAndDiscardGivesThemBack) {
  LazyMemory memory = ReserveOrDie(1000 * kPage + 5);
  EXPECT_EQ(memory.ResidentBytes(), 0u);
  memory.data()[0] = 1;
  EXPECT_EQ(memory.ResidentBytes(), kPage);
  memory.data()[kPage - 1] = 1;
  EXPECT_EQ(memory.ResidentBytes(), kPage);
  std::memset(memory.data() + 10 * kPage, 7, 3 * kPage);
  EXPECT_EQ(memory.ResidentBytes(), 4 * kPage);
  memory.data()[memory.size() - 1] = 1;  // the last, incomplete page
  EXPECT_EQ(memory.ResidentBytes(), 5 * kPage);
  memory.Discard();
  EXPECT_EQ(memory.ResidentBytes(), 0u);
  EXPECT_EQ(memory.data()[0], 0);
  EXPECT_EQ(memory.data()[10 * kPage], 0);
  EXPECT_EQ(memory.data()[memory.size() - 1], 0);
}

TEST(LazyMemory, ARangeThatGoesOnBehindTheEndStopsThere) {
  std::vector<LazyMemory> many;
  for (int i = 0; i < 50; ++i) {
    many.push_back(ReserveOrDie(kPage));
    many.back().data()[0] = 7;
  }
  int neighbours = 0;
  for (LazyMemory& memory : many) {
    for (const LazyMemory& other : many) {
      if (other.data() != memory.data() + kPage) continue;
      ++neighbours;
      memory.DiscardRange(0, 2 * kPage);
      EXPECT_EQ(other.data()[0], 7);
      memory.data()[0] = 7;
    }
  }
  EXPECT_GT(neighbours, 0) << "the system puts mappings side by side, or this tests nothing";
}

TEST(LazyMemory, StartsAsZeros) {
  const LazyMemory memory = ReserveOrDie(3 * kPage);
  EXPECT_TRUE(std::all_of(memory.data(), memory.data() + memory.size(), [](uint8_t byte) { return byte == 0; }));
  EXPECT_EQ(reinterpret_cast<uintptr_t>(memory.data()) % kPage, 0u);
}

TEST(LazyMemory, ARangeEndsWithTheMemory) {
  // Two that the system puts side by side, in either order: discarding beyond one must not reach the other.
  LazyMemory a = ReserveOrDie(4 * kPage), b = ReserveOrDie(4 * kPage);
  std::memset(a.data(), 1, a.size());
  std::memset(b.data(), 1, b.size());
  a.DiscardRange(3 * kPage, 8 * kPage);
  b.DiscardRange(3 * kPage, 8 * kPage);
  EXPECT_EQ(a.ResidentBytes(), 3 * kPage);
  EXPECT_EQ(b.ResidentBytes(), 3 * kPage);
}

TEST(LazyMemory, NothingIsFine) {
  LazyMemory empty = ReserveOrDie(0);
  EXPECT_EQ(empty.size(), 0u);
  EXPECT_EQ(empty.ResidentBytes(), 0u);
  empty.Discard();
}

TEST(LazyMemory, ImpossibleSizesAreOutOfMemory) {
  for (size_t bytes : {size_t{1} << 60, std::numeric_limits<size_t>::max(), std::numeric_limits<size_t>::max() - kPage}) {
    const StatusOr<LazyMemory> memory = LazyMemory::Reserve(bytes);
    ASSERT_FALSE(memory.ok()) << bytes;
    EXPECT_EQ(memory.status().code(), StatusCode::kOutOfMemory);
    EXPECT_NE(memory.status().message().find(std::to_string(bytes)), std::string::npos);
  }
}

TEST(LazyMemory, MovesKeepTheBytes) {
  LazyMemory first = ReserveOrDie(kPage);
  first.data()[1] = 42;
  LazyMemory second = std::move(first);
  EXPECT_EQ(first.data(), nullptr);  // NOLINT: the moved-from state is part of the contract
  EXPECT_EQ(second.data()[1], 42);
  LazyMemory third = ReserveOrDie(2 * kPage);
  third = std::move(second);
  EXPECT_EQ(third.data()[1], 42);
  EXPECT_EQ(third.size(), kPage);
}

}  // namespace
}  // namespace swivel
