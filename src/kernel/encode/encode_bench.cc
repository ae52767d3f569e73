// Time to encode one row of 128 values, keys and values in turn, into consecutive cells of a group.
//   build/release/bin/encode_bench --benchmark_filter=turbo4
#include <benchmark/benchmark.h>

#include <utility>
#include <vector>

#include "base/random.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

constexpr int kWidth = 128;

void BenchEncode(benchmark::State& state, const Codec& codec, Target target) {
  Random random(1);
  std::vector<float> rows(static_cast<size_t>(kGroupTokens) * kWidth);
  for (float& x : rows) x = random.Normal();
  std::vector<uint8_t> keys(codec.group_bytes(kWidth)), values(codec.group_bytes(kWidth));
  const Kernels& kernels = KernelsFor(target);
  if (codec.encodes_groups()) {
    for (auto _ : state) {
      for (auto [side, group] : {std::pair{Side::kKey, keys.data()}, std::pair{Side::kValue, values.data()}}) {
        codec.encode_group(rows.data(), kWidth, TokenMask::First(kGroupTokens), {}, kWidth, side, group);
      }
    }
    return state.SetItemsProcessed(2 * kGroupTokens * state.iterations());
  }
  int token = 0;
  for (auto _ : state) {
    const float* row = rows.data() + static_cast<size_t>(token) * kWidth;
    kernels.encode(codec, row, kWidth, Side::kKey, ScaleMode::kMatched, keys.data(), token);
    kernels.encode(codec, row, kWidth, Side::kValue, ScaleMode::kMatched, values.data(), token);
    token = (token + 1) % kGroupTokens;
  }
  state.SetItemsProcessed(2 * state.iterations());
}

void Register() {
  for (const Target target : SupportedTargets()) {
    for (const Codec* codec : AllCodecs()) {
      const std::string name = std::string(codec->name) + "/" + TargetName(target);
      benchmark::RegisterBenchmark(name.c_str(), BenchEncode, *codec, target);
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
