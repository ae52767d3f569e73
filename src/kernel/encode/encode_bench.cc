// Time to encode one row of width 128: every codec, target and side.
//   build/release/bin/encode_bench --benchmark_filter=tcq3/avx512
#include <benchmark/benchmark.h>

#include <string>
#include <vector>

#include "base/random.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

constexpr int kWidth = 128;

void BenchEncode(benchmark::State& state, const Codec& codec, Target target, Side side) {
  Random random(1);
  std::vector<float> rows(kGroupTokens * kWidth);
  for (float& x : rows) x = random.Normal();
  std::vector<uint8_t> group(codec.group_bytes(kWidth));
  const Kernels& kernels = KernelsFor(target);
  int token = 0;
  for (auto _ : state) {
    kernels.encode(codec, rows.data() + token * kWidth, kWidth, side, ScaleMode::kMatched, group.data(), token);
    token = (token + 1) % kGroupTokens;
  }
  benchmark::DoNotOptimize(group.data());
}

void Register() {
  for (Target target : SupportedTargets()) {
    for (const Codec* codec : AllCodecs()) {
      for (Side side : {Side::kKey, Side::kValue}) {
        const std::string name = std::string(codec->name) + "/" + TargetName(target) + (side == Side::kKey ? "/key" : "/value");
        benchmark::RegisterBenchmark(name.c_str(), BenchEncode, *codec, target, side);
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
