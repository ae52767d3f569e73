// A process that was started with SWIVEL_TARGET: the named target's code runs, or creating a cache is refused.
//
// What is to be expected does not come from the code under test: SWIVEL_TEST_EXPECT names the target that has to run, or says
// "unsupported" or "unknown"; without it the processor's flags in /proc/cpuinfo decide (an emulator shows those of its host).
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "cache/group_store.h"
#include "kernel/attend/attend.h"
#include "swivel/swivel.h"

namespace swivel {
namespace {

constexpr int kWidth = 64, kHeads = 4, kKvHeads = 2, kQueries = 3, kCells = 300;
constexpr float kScale = 0.125f;

struct Known {
  const char* name;
  std::vector<const char*> flags;  // of /proc/cpuinfo
};
const std::vector<Known>& AllKnown() {
  static const std::vector<Known> known = {{"portable", {}},
                                           {"avx2", {"avx2", "fma", "f16c"}},
                                           {"avx512", {"avx512f", "avx512bw", "avx512dq", "avx512vl", "avx512_vnni", "avx512vbmi"}},
                                           {"neon", {"asimddp", "atomics", "asimdrdm", "crc32"}}};
  return known;
}

std::set<std::string> ProcessorFlags() {
  std::ifstream file("/proc/cpuinfo");
  std::string line;
  while (std::getline(file, line)) {
    if (line.rfind("flags", 0) != 0 && line.rfind("Features", 0) != 0) continue;
    std::istringstream words(line.substr(line.find(':') + 1));
    return {std::istream_iterator<std::string>(words), {}};
  }
  return {};
}

bool HasAll(const Known& known) {
  const std::set<std::string> flags = ProcessorFlags();
  for (const char* flag : known.flags) {
    if (!flags.contains(flag)) return false;
  }
  return true;
}

std::string Expected() {
  if (const char* given = std::getenv("SWIVEL_TEST_EXPECT")) return given;
  const char* forced = std::getenv("SWIVEL_TARGET");
  std::string best;
  for (const Known& known : AllKnown()) {
    if (HasAll(known)) best = known.name;
    if (forced != nullptr && std::string(forced) == known.name) return HasAll(known) ? forced : "unsupported";
  }
  return forced != nullptr ? "unknown" : best;
}

float Wave(size_t i, float step) { return std::sin(step * static_cast<float>(i)) + 0.25f * std::cos(0.11f * static_cast<float>(i)); }

struct Data {
  std::vector<float> k, v, q;
  Data() : k(kCells * kKvHeads * kWidth), v(k.size()), q(kQueries * kHeads * kWidth) {
    for (size_t i = 0; i < k.size(); ++i) {
      k[i] = Wave(i, 0.37f);
      v[i] = Wave(i, 0.23f);
    }
    for (size_t i = 0; i < q.size(); ++i) q[i] = Wave(i, 0.71f);
  }
};

swivel_status Create(swivel_cache** cache, swivel_error* error) {
  const swivel_cache_params params = {"turbo4", 0, 1, kWidth, kWidth, kKvHeads, kCells};
  return swivel_cache_create(&params, cache, error);
}

// Through libswivel; `exact` receives attention over the decoded rows in double precision.
std::vector<float> ThroughTheLibrary(swivel_cache* cache, const Data& data, std::vector<double>* exact) {
  EXPECT_EQ(swivel_cache_write(cache, 0, kCells, data.k.data(), data.v.data(), nullptr), SWIVEL_OK);
  std::vector<float> out(kQueries * kHeads * kWidth);
  swivel_attention_params params = {};
  params.num_heads = kHeads;
  params.num_queries = kQueries;
  params.num_cells = kCells;
  params.q = data.q.data();
  params.out = out.data();
  params.scale = kScale;
  params.max_threads = 1;
  swivel_attention* attention = nullptr;
  EXPECT_EQ(swivel_attention_create(cache, &params, &attention, nullptr), SWIVEL_OK);
  swivel_attention_run(attention, 0, 1);
  swivel_attention_destroy(attention);

  std::vector<float> k(data.k.size()), v(data.v.size());
  EXPECT_EQ(swivel_cache_read(cache, 0, kCells, k.data(), v.data(), nullptr), SWIVEL_OK);
  exact->assign(out.size(), 0.0);
  for (int row = 0; row < kQueries * kHeads; ++row) {
    const int kv_head = row % kHeads / (kHeads / kKvHeads);
    double sum = 0.0;
    for (int cell = 0; cell < kCells; ++cell) {
      const size_t at = (static_cast<size_t>(cell) * kKvHeads + kv_head) * kWidth;
      double logit = 0.0;
      for (int i = 0; i < kWidth; ++i) logit += double{data.q[row * kWidth + i]} * k[at + i];
      const double weight = std::exp(kScale * logit);
      sum += weight;
      for (int i = 0; i < kWidth; ++i) (*exact)[row * kWidth + i] += weight * v[at + i];
    }
    for (int i = 0; i < kWidth; ++i) (*exact)[row * kWidth + i] /= sum;
  }
  return out;
}

// The same with one target's table of kernels, past SWIVEL_TARGET and libswivel.
std::vector<float> ByTheTable(Target target, const Data& data) {
  const Kernels& kernels = KernelsFor(target);
  StoreShape shape;
  shape.width = kWidth;
  shape.num_heads = kKvHeads;
  shape.num_cells = kCells;
  const Codec& codec = **FindCodec("turbo4");
  auto k = GroupStore::Create(codec, Side::kKey, ScaleMode::kMatched, shape);
  auto v = GroupStore::Create(codec, Side::kValue, ScaleMode::kMatched, shape);
  for (int cell = 0; cell < kCells; ++cell) {
    (*k)->EncodeCell(kernels, cell, data.k.data() + static_cast<size_t>(cell) * kKvHeads * kWidth);
    (*v)->EncodeCell(kernels, cell, data.v.data() + static_cast<size_t>(cell) * kKvHeads * kWidth);
  }
  std::vector<float> out(kQueries * kHeads * kWidth);
  AttendArgs args;
  args.k = (*k)->View();
  args.v = (*v)->View();
  args.num_heads = kHeads;
  args.num_kv_heads = kKvHeads;
  args.num_queries = kQueries;
  args.num_cells = kCells;
  args.q = data.q.data();
  args.out = out.data();
  args.q_head_stride = args.out_head_stride = kWidth * sizeof(float);
  args.q_query_stride = args.out_query_stride = kHeads * kWidth * sizeof(float);
  args.scale = kScale;
  AttendPlan plan;
  EXPECT_TRUE(AttendPlan::Make(args, 1, &plan).ok());
  std::vector<uint8_t> memory(plan.CounterBytes() + plan.ScratchBytes() + 64);
  uint8_t* aligned = memory.data() + (64 - reinterpret_cast<uintptr_t>(memory.data()) % 64) % 64;
  plan.Bind(aligned, aligned + plan.CounterBytes());
  plan.Run(kernels, 0, 1);
  return out;
}

void ExpectThatItRuns(const std::string& name) {
  swivel_cache* cache = nullptr;
  swivel_error error;
  ASSERT_EQ(Create(&cache, &error), SWIVEL_OK) << error.message;
  EXPECT_EQ(swivel_cache_target(cache), name);
  const Data data;
  std::vector<double> exact;
  const std::vector<float> out = ThroughTheLibrary(cache, data, &exact);
  swivel_cache_destroy(cache);

  double difference = 0.0, norm = 0.0;
  for (size_t i = 0; i < out.size(); ++i) {
    difference += std::pow(out[i] - exact[i], 2);
    norm += exact[i] * exact[i];
  }
  EXPECT_LT(std::sqrt(difference / norm), 0.03);  // docs/numerics.md: integer attention

  // Targets round differently (bytes of weights, fused products), so the last bits of the output tell which of them computed it.
  const std::vector<Target> targets = SupportedTargets();
  bool found = false;
  for (Target target : targets) {
    const bool same = ByTheTable(target, data) == out;
    EXPECT_EQ(same, TargetName(target) == name) << TargetName(target) << (same ? " computed the same bits" : " computed other bits");
    found |= same;
  }
  EXPECT_TRUE(found);
}

void ExpectThatItIsRefused(swivel_status status, const std::vector<std::string>& words) {
  swivel_cache* cache = nullptr;
  swivel_error error;
  ASSERT_EQ(Create(&cache, &error), status) << error.message;
  EXPECT_EQ(cache, nullptr);
  const std::string message = error.message;
  EXPECT_NE(message.find("SWIVEL_TARGET: "), std::string::npos) << message;
  EXPECT_NE(message.find("'" + std::string(std::getenv("SWIVEL_TARGET")) + "'"), std::string::npos) << message;
  for (const std::string& word : words) EXPECT_NE(message.find(word), std::string::npos) << message << " lacks " << word;
}

TEST(ForcedTarget, RunsOrIsRefusedByName) {
  const std::string expected = Expected();
  RecordProperty("expected", expected);
  if (expected == "unsupported") {
    ExpectThatItIsRefused(SWIVEL_UNSUPPORTED, {"not supported by this processor", "it runs: portable"});
  } else if (expected == "unknown") {
    ExpectThatItIsRefused(SWIVEL_INVALID_ARGUMENT, {"unknown target", "accepted: portable, avx2, avx512, neon"});
  } else {
    ExpectThatItRuns(expected);
  }
}

}  // namespace
}  // namespace swivel
