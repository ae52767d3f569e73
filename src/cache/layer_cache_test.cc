// Staged caches: what is packed when, what stays exact, and attention over both kinds against plain sums over the rows that are read back.
#include "cache/layer_cache.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "base/half.h"
#include "base/random.h"
#include "cache/make_layer.h"
#include "cache/spec.h"

namespace swivel {
namespace {

// A well-conditioned change of basis with a mean: signs and Hadamard times a diagonal, stretched by up to 3.
KeyTransform StretchedTransform(int width, bool halves, uint64_t seed) {
  Random random(seed);
  KeyTransform transform = HadamardTransform(width);
  transform.split = halves ? FirstSegment(width) : width;
  for (float& m : transform.mean) m = 2.0f * random.Normal();
  for (int j = 0; j < width; ++j) {
    for (int i = 0; i < width; ++i) {
      const float stretch = i < transform.split ? 3.0f : 0.5f;
      const size_t at = static_cast<size_t>(j) * width + i;
      transform.forward[at] *= stretch;
      transform.query[at] /= stretch;
      transform.inverse[static_cast<size_t>(i) * width + j] /= stretch;
    }
  }
  return transform;
}

struct Case {
  std::string spec = "k=tcq3,v=tcq3,transform=full,sinks=4,window=128";
  int width = 64;
  int heads = 2;
  int group = 3;  // query heads of a KV head
  int64_t cells = 700;
  int streams = 1;
};

class Problem {
 public:
  explicit Problem(const Case& c, uint64_t seed = 1) : case_(c), random_(seed) {
    const CacheSpec spec = ParseSpec(c.spec).value();
    const StoreShape shape = {c.width, c.heads, c.cells, c.streams};
    auto made = MakeLayer(spec, GetCodec(spec.k), GetCodec(spec.v), shape, shape, spec.budget_bytes);
    cache_ = std::move(*made);
    std::vector<KeyTransform> transforms;
    for (int h = 0; h < c.heads; ++h) transforms.push_back(StretchedTransform(c.width, spec.halves, 100 + static_cast<uint64_t>(h)));
    for (SegmentStore* store : StoresWithBasis(cache_.get())) store->SetTransforms(transforms);
    cache_->AllowPacking();
  }

  LayerCache& cache() { return *cache_; }

  // Writes the tokens at positions [from, to) to the cells of the same numbers.
  void Write(int64_t from, int64_t to) {
    for (int64_t cell = from; cell < to; ++cell) {
      for (Side side : {Side::kKey, Side::kValue}) {
        uint16_t* row = cache_->Row(side, cell);
        for (int i = 0; i < case_.width * case_.heads; ++i) row[i] = F16FromF32(random_.Normal() + (side == Side::kKey ? 1.0f : 0.0f));
        cache_->MarkWritten(side, cell, cell % case_.cells);
      }
    }
  }

  size_t Pack(const Kernels& kernels, int64_t incoming = 0) {
    std::vector<PackJob> jobs = cache_->CollectReady(incoming);
    for (PackJob& job : jobs) cache_->RunJob(kernels, &job);
    cache_->Commit(jobs);
    return jobs.size();
  }

  std::vector<float> Row(Side side, int64_t cell) const {
    std::vector<uint16_t> half(static_cast<size_t>(case_.width) * case_.heads);
    cache_->ReadRow(side, cell, half.data());
    std::vector<float> row;
    for (uint16_t x : half) row.push_back(F32FromF16(x));
    return row;
  }

  // The error of attention over the first `cells` cells, relative to the norm of the exact output.
  double AttentionError(const Kernels& kernels, int queries, int64_t cells, int stream = 0) {
    const int width = case_.width, heads = case_.heads * case_.group;
    std::vector<float> q(static_cast<size_t>(heads) * queries * width), out(q.size(), -777.0f);
    for (float& x : q) x = random_.Normal();
    AttendArgs args;
    cache_->Describe(&args);
    args.first_stream = stream;
    args.num_heads = heads;
    args.num_kv_heads = case_.heads;
    args.num_queries = queries;
    args.num_cells = cells;
    args.q = q.data();
    args.out = out.data();
    args.q_query_stride = args.out_query_stride = width * sizeof(float);
    args.q_head_stride = args.out_head_stride = args.q_query_stride * static_cast<size_t>(queries);
    args.scale = 1.0f / std::sqrt(static_cast<float>(width));
    AttendPlan plan;
    EXPECT_TRUE(AttendPlan::Make(args, 1, &plan).ok());
    std::vector<uint64_t> counters(plan.CounterBytes() / 8 + 16), scratch(plan.ScratchBytes() / 8 + 16, ~uint64_t{0});
    const auto aligned = [](std::vector<uint64_t>& words) {
      return reinterpret_cast<void*>((reinterpret_cast<uintptr_t>(words.data()) + 63) / 64 * 64);
    };
    plan.Bind(aligned(counters), aligned(scratch));
    plan.Run(kernels, 0, 1);

    std::vector<std::vector<float>> k, v;
    for (int64_t cell = 0; cell < cells; ++cell) {
      k.push_back(Row(Side::kKey, stream * case_.cells + cell));
      v.push_back(Row(Side::kValue, stream * case_.cells + cell));
    }
    double error = 0, norm = 0;
    for (int h = 0; h < heads; ++h) {
      const size_t head = static_cast<size_t>(h / case_.group) * width;
      for (int i = 0; i < queries; ++i) {
        const size_t at = (static_cast<size_t>(h) * queries + i) * width;
        std::vector<double> logits, sum(static_cast<size_t>(width));
        double largest = -std::numeric_limits<double>::infinity(), total = 0;
        for (const auto& row : k) {
          double dot = 0;
          for (int j = 0; j < width; ++j) dot += static_cast<double>(q[at + j]) * row[head + j];
          logits.push_back(dot * args.scale);
          largest = std::max(largest, logits.back());
        }
        for (size_t t = 0; t < logits.size(); ++t) {
          const double weight = std::exp(logits[t] - largest);
          total += weight;
          for (int j = 0; j < width; ++j) sum[j] += weight * v[t][head + j];
        }
        for (int j = 0; j < width; ++j) {
          const double exact = sum[j] / total;
          error += (exact - out[at + j]) * (exact - out[at + j]);
          norm += exact * exact;
        }
      }
    }
    return std::sqrt(error / norm);
  }

 private:
  Case case_;
  Random random_;
  std::unique_ptr<LayerCache> cache_;
};

std::vector<const Kernels*> AllKernels() {
  std::vector<const Kernels*> all;
  for (Target target : SupportedTargets()) all.push_back(&KernelsFor(target));
  return all;
}

TEST(LayerCache, AttentionReadsExactAndPackedCellsAsTheyAreReadBack) {
  for (const Kernels* kernels : AllKernels()) {
    for (const char* spec : {"k=tcq3,v=tcq3,transform=full,sinks=4,window=128", "k=tcq4,v=tcq4,transform=full,sinks=4", "k=tcq2,v=tcq2,transform=full",
                             "k=tcq3,v=tcq2,transform=full,halves=off,sinks=3", "k=tcq3,v=turbo4,transform=full,group_mean=off,window=64",
                             "k=turbo4,v=tcq3,sinks=4,window=128", "k=f16,v=q8_0,sinks=4", "kivi2", "k=kivi4,v=kivi2,sinks=4,window=64"}) {
      for (int width : {64, 80, 128, 256}) {
        SCOPED_TRACE(std::string(TargetName(kernels->target)) + " " + spec + " width " + std::to_string(width));
        if (width == 80 && (std::string(spec).find("q8_0") != std::string::npos || std::string(spec).find("kivi") != std::string::npos)) continue;
        Problem problem({.spec = spec, .width = width});
        problem.Write(0, 555);
        EXPECT_GT(problem.Pack(*kernels), 0u);
        EXPECT_GT(problem.cache().Count().packed, 100);
        for (int queries : {1, 2, 40}) EXPECT_LT(problem.AttentionError(*kernels, queries, 555), 0.03) << queries << " queries";
      }
    }
  }
}

TEST(LayerCache, APartOfAGroupGivesBackItsOwnRowsOnly) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  // 128 + 32 cells a stream; the sinks of stream 1 begin a page, 32 rows behind the first row of the last group of stream 0.
  Problem problem({.spec = "k=tcq3,v=tcq3,transform=full,sinks=4", .cells = 160, .streams = 2});
  problem.Write(0, 320);
  const std::vector<float> sink = problem.Row(Side::kValue, 161);
  problem.Pack(kernels);
  EXPECT_EQ(problem.cache().Count().packed, 2 * (160 - 4));
  EXPECT_EQ(problem.Row(Side::kValue, 161), sink);
}

// A row that is written again beside packed ones either fits their levels or stays exact for good; the others keep their meaning.
TEST(LayerCache, ARowThatDoesNotFitItsBlockStaysExact) {
  const Kernels& kernels = *AllKernels().back();
  Problem problem({.spec = "kivi2", .width = 64});
  problem.Write(0, 128);
  ASSERT_GT(problem.Pack(kernels), 0u);
  ASSERT_EQ(problem.cache().Count().packed, 128);
  const std::vector<float> neighbour = problem.Row(Side::kKey, 40);
  for (Side side : {Side::kKey, Side::kValue}) {
    std::fill_n(problem.cache().Row(side, 41), 128, F16FromF32(100.0f));
    problem.cache().MarkWritten(side, 41, 41);
    std::vector<uint16_t> back(128);
    problem.cache().ReadRow(side, 40, back.data());
    std::copy(back.begin(), back.end(), problem.cache().Row(side, 42));
    problem.cache().MarkWritten(side, 42, 42);
  }
  problem.Pack(kernels);
  EXPECT_EQ(problem.cache().Count().packed, 127);
  EXPECT_TRUE(problem.cache().IsPinned(41));
  for (float x : problem.Row(Side::kKey, 41)) ASSERT_EQ(x, 100.0f);
  EXPECT_EQ(problem.Row(Side::kKey, 40), neighbour);
  EXPECT_EQ(problem.Row(Side::kKey, 42), neighbour);
  EXPECT_LT(problem.AttentionError(kernels, 3, 128), 0.03);
}

TEST(LayerCache, OldGroupsDecay) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  Problem problem({.spec = "k=tcq4,v=tcq4,transform=full,decay=256:3+512:2", .cells = 1280});
  for (int64_t token = 0; token < 1200; token += 100) {
    problem.Pack(kernels, 100);
    problem.Write(token, token + 100);
  }
  while (problem.Pack(kernels) > 0) {
  }
  // 9 full groups, whose last tokens are 1072, 944, …, 48 tokens old.
  EXPECT_EQ(problem.cache().Count().groups_decayed, 7 + 5);
  EXPECT_LT(problem.AttentionError(kernels, 1, 1200), 0.04);
  EXPECT_LT(problem.AttentionError(kernels, 40, 1200), 0.04);
}

TEST(LayerCache, ABudgetIsKeptAtEveryStep) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  constexpr size_t kBudget = 1 << 20;  // of 8192 tokens, 2 heads of 64: 4 MiB in f16, .8 with 3 bits on average
  Problem problem({.spec = "k=tcq4,v=tcq4,transform=full,sinks=4,window=128,budget=" + std::to_string(kBudget), .cells = 8192});
  for (int64_t token = 0; token < 8192;) {
    const int64_t batch = std::min<int64_t>(token < 4096 ? 512 : 37, 8192 - token);
    for (int round = 0; round < 4; ++round) problem.Pack(kernels, batch);
    problem.Write(token, token + batch);
    token += batch;
    ASSERT_LE(problem.cache().Bytes(), kBudget) << token << " tokens";
  }
  EXPECT_FALSE(problem.cache().over_budget());
  EXPECT_GT(problem.cache().Count().groups_decayed, 10);
  EXPECT_LT(problem.AttentionError(kernels, 3, 8192), 0.05);
}

TEST(LayerCache, ABudgetThatCannotBeKeptIsReported) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  Problem problem({.spec = "k=tcq3,v=tcq3,transform=full,budget=100K", .cells = 2048});
  problem.Write(0, 2048);
  for (int round = 0; round < 5; ++round) problem.Pack(kernels, 1);
  EXPECT_TRUE(problem.cache().over_budget());
}

}  // namespace
}  // namespace swivel
