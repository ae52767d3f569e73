// Attention must not unpack a cache before it reads it: what it needs beside the cache does not depend on how much is cached.
#include <gtest/gtest.h>

#include <algorithm>

#include "kernel/attend/attend.h"

namespace swivel {
namespace {

TEST(AttendPlan, ScratchDoesNotGrowWithTheCache) {
  constexpr int kThreads = 4;
  for (const int num_queries : {1, 8, 512}) {
    size_t largest = 0, smallest = SIZE_MAX;
    for (const int64_t cells : {65536, 262144, 1048576}) {
      AttendArgs args;
      alignas(64) static float nothing[16];  // a plan is made, not run
      args.k.base = args.v.base = reinterpret_cast<uint8_t*>(nothing);
      args.q = args.out = nothing;
      args.k.codec = args.v.codec = &GetCodec(CodecId::kTurbo4);
      args.k.width = args.v.width = 128;
      args.num_heads = 32;
      args.num_kv_heads = 8;
      args.num_queries = num_queries;
      args.num_cells = cells;
      args.num_streams = 1;
      args.scale = 1;
      AttendPlan plan;
      ASSERT_TRUE(AttendPlan::Make(args, kThreads, &plan).ok());
      largest = std::max(largest, plan.ScratchBytes());
      smallest = std::min(smallest, plan.ScratchBytes());
    }
    EXPECT_LE(largest, kThreads * (size_t{1} << 20)) << num_queries << " queries";
    EXPECT_EQ(largest, smallest) << num_queries << " queries";
  }
}

}  // namespace
}  // namespace swivel
