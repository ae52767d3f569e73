// Speed of attention on packed codes: 32 query heads on 8 KV heads, width 128 (an 8B model's layer), random data, no mask.
//   build/release/bin/attend_bench --benchmark_filter=turbo4
#include <benchmark/benchmark.h>

#include <cmath>
#include <thread>
#include <vector>

#include "base/random.h"
#include "cache/group_store.h"
#include "kernel/attend/attend.h"

namespace swivel {
namespace {

constexpr int kWidth = 128;
constexpr int kHeads = 32;
constexpr int kKvHeads = 8;

std::unique_ptr<GroupStore> MakeStore(const Codec& codec, Side side, int64_t cells) {
  StoreShape shape;
  shape.width = kWidth;
  shape.num_heads = kKvHeads;
  shape.num_cells = cells;
  auto store = GroupStore::Create(codec, side, ScaleMode::kMatched, shape);
  Random random(1);
  const Kernels& kernels = KernelsFor(SupportedTargets().back());
  std::vector<float> rows(static_cast<size_t>(kGroupTokens) * kWidth * kKvHeads);
  for (float& x : rows) x = random.Normal();
  for (int64_t cell = 0; cell < cells; cell += kGroupTokens) {
    for (int head = 0; head < kKvHeads; ++head) {
      (*store)->EncodeGroup(kernels, cell / kGroupTokens, head, &rows[static_cast<size_t>(head) * kWidth], kWidth * kKvHeads,
                            TokenMask::First(cells - cell), {});
    }
  }
  return std::move(*store);
}

void BenchAttend(benchmark::State& state, const Codec& codec, Target target, int queries, int64_t cells, int threads) {
  const auto k = MakeStore(codec, Side::kKey, cells);
  const auto v = MakeStore(codec, Side::kValue, cells);
  Random random(2);
  std::vector<float> q(static_cast<size_t>(kHeads) * queries * kWidth), out(q.size());
  for (float& x : q) x = 1.5f * random.Normal();
  AttendArgs args;
  args.k = k->View();
  args.v = v->View();
  args.num_heads = kHeads;
  args.num_kv_heads = kKvHeads;
  args.num_queries = queries;
  args.num_cells = cells;
  args.q = q.data();
  args.out = out.data();
  args.q_query_stride = args.out_query_stride = kWidth * sizeof(float);
  args.q_head_stride = args.out_head_stride = args.q_query_stride * queries;
  args.scale = 1.0f / std::sqrt(static_cast<float>(kWidth));
  AttendPlan plan;
  if (!AttendPlan::Make(args, threads, &plan).ok()) return state.SkipWithError("plan refused");
  std::vector<uint8_t> counters(plan.CounterBytes() + 64), scratch(plan.ScratchBytes() + 64);
  const auto aligned = [](std::vector<uint8_t>& bytes) { return bytes.data() + 64 - reinterpret_cast<uintptr_t>(bytes.data()) % 64; };
  const Kernels& kernels = KernelsFor(target);
  for (auto _ : state) {
    plan.Bind(aligned(counters), aligned(scratch));
    std::vector<std::thread> team;
    for (int t = 1; t < threads; ++t) team.emplace_back([&, t] { plan.Run(kernels, t, threads); });
    plan.Run(kernels, 0, threads);
    for (std::thread& thread : team) thread.join();
  }
  const double bytes = 2.0 * cells * kKvHeads * kWidth * BitsPerValue(codec, kWidth) / 8.0;
  state.counters["packed_GB/s"] = benchmark::Counter(bytes * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
  const double products = 2.0 * kHeads * queries * static_cast<double>(cells) * kWidth;
  state.counters["GMAC/s"] = benchmark::Counter(products * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void Register() {
  struct Size {
    const char* op;
    int queries;
    int64_t cells;
    int threads;
  };
  const Size sizes[] = {{"decode", 1, 512, 1}, {"decode", 1, 4096, 1}, {"decode", 1, 32768, 1}, {"decode", 1, 32768, 2},
                        {"batch8", 8, 4096, 1}, {"prefill", 512, 512, 1}, {"prefill", 512, 4096, 1}, {"prefill", 512, 4096, 2}};
  for (Target target : SupportedTargets()) {
    for (const Codec* codec : AllCodecs()) {
      for (const Size& size : sizes) {
        const std::string name = std::string(codec->name) + "/" + TargetName(target) + "/" + size.op + "/n_kv:" + std::to_string(size.cells) +
                                 "/threads:" + std::to_string(size.threads);
        benchmark::RegisterBenchmark(name.c_str(), BenchAttend, *codec, target, size.queries, size.cells, size.threads)
            ->Unit(benchmark::kMillisecond)
            ->UseRealTime();
      }
    }
  }
}

}  // namespace
}  // namespace swivel

int main(int argc, char** argv) {
  swivel::Register();
  benchmark::Initialize(&argc, argv);
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
