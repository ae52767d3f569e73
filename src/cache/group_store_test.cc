#include "cache/group_store.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "codec/test_rows.h"

namespace swivel {
namespace {

const Kernels& BestKernels() { return KernelsFor(SupportedTargets().back()); }

std::unique_ptr<GroupStore> MakeStore(const char* codec, const StoreShape& shape, Side side = Side::kKey) {
  StatusOr<std::unique_ptr<GroupStore>> store = GroupStore::Create(**FindCodec(codec), side, ScaleMode::kMatched, shape);
  EXPECT_TRUE(store.ok()) << store.status().message();
  return std::move(*store);
}

std::vector<float> RowOf(const StoreShape& shape, int64_t cell) {
  Random random(1000 + static_cast<uint64_t>(cell));
  return test_rows::GaussianRow(random, shape.num_heads * shape.width);
}

std::vector<float> Decoded(const GroupStore& store, int64_t cell) {
  std::vector<float> row(static_cast<size_t>(store.shape().num_heads) * store.shape().width);
  store.DecodeCell(cell, row.data());
  return row;
}

// What the cell decodes to, computed head by head without a store.
std::vector<float> Expected(const GroupStore& store, const std::vector<float>& row, int64_t cell) {
  std::vector<float> expected;
  const int token = static_cast<int>(cell % store.shape().num_cells % kGroupTokens);
  for (int head = 0; head < store.shape().num_heads; ++head) {
    const std::vector<float> part(row.begin() + head * store.shape().width, row.begin() + (head + 1) * store.shape().width);
    const std::vector<float> back = test_rows::RoundTrip(store.codec(), part, store.side(), ScaleMode::kMatched, token);
    expected.insert(expected.end(), back.begin(), back.end());
  }
  return expected;
}

void FillAll(GroupStore& store) {
  for (int64_t cell = 0; cell < store.shape().num_cells * store.shape().num_streams; ++cell) {
    store.EncodeCell(BestKernels(), cell, RowOf(store.shape(), cell).data());
  }
}

const StoreShape kShapes[] = {{64, 2, 300, 3}, {80, 3, 129, 2}, {128, 1, 1, 4}, {64, 1, 127, 2}, {96, 2, 256, 1}, {64, 2, 200, 2}};

TEST(GroupStore, CellsOfAllStreamsAndGroupsKeepTheirRows) {
  for (const char* codec : {"turbo4", "turbo3", "turbo2", "f16"}) {
    for (const StoreShape& shape : kShapes) {
      for (Side side : {Side::kKey, Side::kValue}) {
        SCOPED_TRACE(std::string(codec) + " width " + std::to_string(shape.width) + " cells " + std::to_string(shape.num_cells));
        const std::unique_ptr<GroupStore> store = MakeStore(codec, shape, side);
        FillAll(*store);
        for (int64_t cell = 0; cell < shape.num_cells * shape.num_streams; ++cell) {
          ASSERT_EQ(Decoded(*store, cell), Expected(*store, RowOf(shape, cell), cell)) << cell;
        }
      }
    }
  }
}

TEST(GroupStore, ViewFindsTheSameRows) {
  const StoreShape shape = {64, 3, 300, 2};
  const std::unique_ptr<GroupStore> store = MakeStore("turbo3", shape, Side::kValue);
  FillAll(*store);
  const KvView view = store->View();
  EXPECT_EQ(view.codec, &store->codec());
  EXPECT_EQ(view.width, 64);
  for (int stream = 0; stream < 2; ++stream) {
    for (int64_t cell : {0, 127, 128, 255, 256, 299}) {
      const std::vector<float> row = Decoded(*store, stream * shape.num_cells + cell);
      for (int head = 0; head < 3; ++head) {
        const uint8_t* group = view.base + stream * view.strides.stream + cell / kGroupTokens * view.strides.group + head * view.strides.head;
        const std::vector<float> part = test_rows::Decode(*view.codec, group, 64, Side::kValue, static_cast<int>(cell % kGroupTokens));
        ASSERT_EQ(part, std::vector<float>(row.begin() + head * 64, row.begin() + (head + 1) * 64)) << stream << " " << cell << " " << head;
      }
    }
  }
}

TEST(GroupStore, OneHeadAtATimeGivesTheSameBytes) {
  const StoreShape shape = {64, 3, 40, 1};
  const std::unique_ptr<GroupStore> whole = MakeStore("turbo3", shape), parts = MakeStore("turbo3", shape);
  FillAll(*whole);
  for (int head : {2, 0, 1}) {
    for (int64_t cell = 0; cell < 40; ++cell) parts->EncodeCellHead(BestKernels(), cell, head, RowOf(shape, cell).data() + head * 64);
  }
  EXPECT_EQ(std::memcmp(whole->View().base, parts->View().base, whole->CapacityBytes()), 0);
}

// Every cell after the copy equals its source or what it was before.
void CheckCopy(const char* codec, const StoreShape& shape, int64_t from, int64_t to, int64_t count) {
  SCOPED_TRACE(std::string(codec) + " cells " + std::to_string(shape.num_cells) + ": " + std::to_string(count) + " from " +
               std::to_string(from) + " to " + std::to_string(to));
  const std::unique_ptr<GroupStore> source = MakeStore(codec, shape), target = MakeStore(codec, shape);
  FillAll(*source);
  const int64_t total = shape.num_cells * shape.num_streams;
  for (int64_t cell = 0; cell < total; ++cell) target->EncodeCell(BestKernels(), cell, RowOf(shape, cell + 5000).data());
  std::vector<std::vector<float>> expected;
  for (int64_t cell = 0; cell < total; ++cell) {
    expected.push_back(cell >= to && cell < to + count ? Decoded(*source, cell - to + from) : Decoded(*target, cell));
  }
  target->CopyCells(*source, from, to, count);
  for (int64_t cell = 0; cell < total; ++cell) ASSERT_EQ(Decoded(*target, cell), expected[cell]) << "cell " << cell;
}

TEST(GroupStore, CopiesCellsAlignedAndUnaligned) {
  for (const char* codec : {"turbo4", "turbo3", "q8_0", "bf16"}) {
    const StoreShape shape = {64, 2, 384, 2};
    CheckCopy(codec, shape, 0, 0, 384);
    CheckCopy(codec, shape, 0, 384, 384);
    CheckCopy(codec, shape, 128, 0, 200);
    CheckCopy(codec, shape, 1, 2, 300);
    CheckCopy(codec, shape, 127, 128, 129);
    CheckCopy(codec, shape, 5, 700, 1);
    CheckCopy(codec, shape, 9, 9, 0);
  }
}

// A stream's last group may be incomplete; the cells behind it belong to the next stream's first group.
TEST(GroupStore, CopiesAcrossStreamsWithIncompleteGroups) {
  for (const char* codec : {"turbo4", "q4_0"}) {
    const StoreShape shape = {64, 1, 200, 3};
    CheckCopy(codec, shape, 0, 200, 200);
    CheckCopy(codec, shape, 200, 0, 200);
    CheckCopy(codec, shape, 0, 0, 600);
    CheckCopy(codec, shape, 128, 128, 300);
    CheckCopy(codec, shape, 128, 0, 200);
    CheckCopy(codec, shape, 0, 328, 200);
    CheckCopy(codec, {64, 1, 1, 200}, 3, 20, 150);
  }
}

TEST(GroupStore, CopiesWithinItself) {
  const StoreShape shape = {64, 2, 300, 2};
  const std::unique_ptr<GroupStore> store = MakeStore("turbo3", shape);
  FillAll(*store);
  std::vector<std::vector<float>> first;
  for (int64_t cell = 0; cell < 300; ++cell) first.push_back(Decoded(*store, cell));
  store->CopyCells(*store, 0, 300, 300);
  for (int64_t cell = 0; cell < 300; ++cell) ASSERT_EQ(Decoded(*store, 300 + cell), first[cell]) << cell;
}

std::unique_ptr<GroupStore> FilledByGroups(const StoreShape& shape, Side side, uint64_t seed) {
  std::unique_ptr<GroupStore> store = MakeStore("kivi2", shape, side);
  Random random(seed);
  for (int64_t group = 0; group < shape.groups_per_stream() * shape.num_streams; ++group) {
    for (int head = 0; head < shape.num_heads; ++head) {
      const std::vector<float> rows = test_rows::GaussianRow(random, kGroupTokens * shape.width);
      EXPECT_FALSE(store->EncodeGroup(BestKernels(), group, head, rows.data(), static_cast<size_t>(shape.width), TokenMask::First(kGroupTokens), {}).Any());
    }
  }
  return store;
}

// The codes of a token mean nothing without those beside it.
TEST(GroupStore, CopiesOfCodecsThatEncodeGroupsAreOfWholeGroups) {
  const StoreShape shape = {64, 2, 200, 3};
  for (Side side : {Side::kKey, Side::kValue}) {
    const std::unique_ptr<GroupStore> source = FilledByGroups(shape, side, 1);
    const auto same = [&](int64_t from, int64_t to, int64_t count) {
      const std::unique_ptr<GroupStore> target = FilledByGroups(shape, side, 2), before = FilledByGroups(shape, side, 2);
      const bool copied = target->CopyCells(*source, from, to, count);
      for (int64_t cell = 0; cell < 600; ++cell) {
        const bool inside = copied && cell >= to && cell < to + count;
        EXPECT_EQ(Decoded(*target, cell), inside ? Decoded(*source, cell - to + from) : Decoded(*before, cell)) << cell;
      }
      return copied;
    };
    EXPECT_TRUE(same(0, 200, 200));
    EXPECT_TRUE(same(200, 0, 400));
    EXPECT_TRUE(same(400, 200, 128));
    EXPECT_TRUE(same(128, 528, 72));
    for (auto [from, to, count] : {std::array{0, 128, 72}, {0, 0, 100}, {1, 201, 10}, {128, 128, 80}, {128, 328, 71}}) {
      EXPECT_FALSE(same(from, to, count)) << from << " " << to << " " << count;
    }
  }
}

TEST(GroupStore, MemoryFollowsUseAndClearGivesItBack) {
  const StoreShape shape = {128, 8, 1 << 20, 4};
  const std::unique_ptr<GroupStore> store = MakeStore("turbo4", shape);
  // 4 streams * 8192 groups * 8 heads * 8448 bytes.
  EXPECT_EQ(store->CapacityBytes(), size_t{4} * 8192 * 8 * 128 * 66);
  EXPECT_EQ(store->ResidentBytes(), 0u);
  for (int64_t cell = 0; cell < 256; ++cell) store->EncodeCell(BestKernels(), cell, RowOf(shape, cell).data());
  const size_t written = size_t{2} * 8 * 128 * 66;
  EXPECT_GE(store->ResidentBytes(), written);
  EXPECT_LE(store->ResidentBytes(), written + 2 * 4096);
  store->Clear();
  EXPECT_EQ(store->ResidentBytes(), 0u);
  EXPECT_EQ(Decoded(*store, 17), std::vector<float>(8 * 128, 0.0f));
}

TEST(GroupStore, CountsIncompleteGroupsWhole) {
  EXPECT_EQ(MakeStore("turbo4", {64, 2, 129, 3})->CapacityBytes(), size_t{3} * 2 * 2 * 128 * 34);
  EXPECT_EQ(MakeStore("q8_0", {64, 1, 1, 1})->CapacityBytes(), size_t{128} * 68);
}

TEST(GroupStore, FreshRowsAreZeros) {
  for (const Codec* codec : AllCodecs()) {
    const StoreShape shape = {64, 1, 10, 1};
    EXPECT_EQ(Decoded(*MakeStore(codec->name, shape), 3), std::vector<float>(64, 0.0f)) << codec->name;
  }
}

TEST(GroupStore, RefusesWhatItCannotHold) {
  const auto create = [](const char* codec, const StoreShape& shape) {
    return GroupStore::Create(**FindCodec(codec), Side::kKey, ScaleMode::kMatched, shape).status();
  };
  EXPECT_EQ(create("turbo4", {72, 1, 1, 1}).code(), StatusCode::kUnsupported);
  EXPECT_EQ(create("q4_0", {80, 1, 1, 1}).code(), StatusCode::kUnsupported);
  for (const StoreShape& shape : {StoreShape{64, 0, 1, 1}, StoreShape{64, 1, 0, 1}, StoreShape{64, 1, 1, 0}, StoreShape{64, -1, -1, 1}}) {
    EXPECT_EQ(create("turbo4", shape).code(), StatusCode::kInvalidArgument);
  }
  EXPECT_EQ(create("turbo4", {64, 1, int64_t{1} << 56, 1}).code(), StatusCode::kOutOfMemory);
  // Sizes whose product wraps around must not become a small store.
  EXPECT_EQ(create("turbo4", {64, 1 << 20, int64_t{1} << 50, 1 << 20}).code(), StatusCode::kOutOfMemory);
  EXPECT_EQ(create("turbo4", {64, 1, std::numeric_limits<int64_t>::max(), 1}).code(), StatusCode::kOutOfMemory);
}

TEST(GroupStore, ThreadsMayWriteDifferentGroups) {
  const StoreShape shape = {64, 2, 1024, 1};
  const std::unique_ptr<GroupStore> alone = MakeStore("turbo3", shape), together = MakeStore("turbo3", shape);
  FillAll(*alone);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int64_t cell = 256 * t; cell < 256 * (t + 1); ++cell) together->EncodeCell(BestKernels(), cell, RowOf(shape, cell).data());
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(std::memcmp(alone->View().base, together->View().base, alone->CapacityBytes()), 0);
}

}  // namespace
}  // namespace swivel
