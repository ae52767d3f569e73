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
    auto made = MakeLayer(spec, {}, shape, shape, spec.budget_bytes);
    cache_ = std::move(*made);
    std::vector<KeyTransform> transforms;
    for (int h = 0; h < c.heads; ++h) transforms.push_back(StretchedTransform(c.width, spec.halves, 100 + static_cast<uint64_t>(h)));
    SetBasis(cache_.get(), transforms);
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

  size_t Pack(const Kernels& kernels, int64_t incoming = 0) { return Pack(kernels, incoming, incoming); }
  size_t Pack(const Kernels& kernels, int64_t incoming, int64_t of_a_stream) {
    std::vector<PackJob> jobs = cache_->CollectReady(incoming, of_a_stream);
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

// A stream that does not fill its last group: what is packed there must not take rows of the next stream with it.
TEST(LayerCache, AnIncompleteGroupEndsWithItsStream) {
  Case c;
  c.width = 128;
  c.heads = 8;  // rows of half a page
  c.cells = 140;
  c.streams = 2;
  c.spec = "tcq3,transform=wht,window=0,sinks=0";
  Problem problem(c);
  problem.Write(140, 160);
  const std::vector<float> before = problem.Row(Side::kKey, 145);
  problem.Write(0, 140);
  problem.Pack(KernelsFor(ChooseTarget().value()));
  EXPECT_EQ(problem.cache().Count().packed, 140);
  EXPECT_EQ(problem.Row(Side::kKey, 145), before);
  EXPECT_NE(before, std::vector<float>(before.size(), 0.0f));
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

// Heads with codecs of their own: the same rows as in caches where all heads have that codec, and the same attention.
TEST(LayerCache, HeadsOfSeveralCodecsAreThoseOfCachesOfEachCodec) {
  const std::string base = "k=tcq3,v=tcq2,transform=full,sinks=4,window=64";
  struct Codecs {
    std::string k, v;
  };
  const std::vector<Codecs> heads = {{"q8_0", "tcq2"}, {"tcq3", "tcq2"}, {"tcq3", "turbo4"}, {"tcq4", "f16"}};
  const std::string mixed = base + ",layer=0/0:k=q8_0,layer=0/3:k=tcq4,layer=0/2:v=turbo4,layer=0/3:v=f16";
  for (const Kernels* kernels : AllKernels()) {
    for (int width : {64, 128}) {
      SCOPED_TRACE(std::string(TargetName(kernels->target)) + " width " + std::to_string(width));
      Problem problem({.spec = mixed, .width = width, .heads = 4, .streams = 2});
      problem.Write(0, 1255);  // both streams
      EXPECT_GT(problem.Pack(*kernels), 0u);
      EXPECT_EQ(problem.cache().num_stores(Side::kKey), 3);
      EXPECT_EQ(problem.cache().num_stores(Side::kValue), 3);
      size_t capacity = 0;
      for (size_t head = 0; head < heads.size(); ++head) {
        // The random rows depend on the case's numbers, not on its spec. (A transform of all keys would not take q8_0.)
        const bool rows = heads[head].k == "q8_0";
        const std::string spec = rows ? "k=q8_0,v=f16,sinks=4,window=64" : "k=" + heads[head].k + ",v=" + heads[head].v + base.substr(base.find(",transform"));
        Problem alone({.spec = spec, .width = width, .heads = 4, .streams = 2});
        alone.Write(0, 1255);
        alone.Pack(*kernels);
        for (const int64_t cell : {int64_t{0}, int64_t{100}, int64_t{500}, int64_t{900}}) {
          for (Side side : {Side::kKey, Side::kValue}) {
            if (rows && side == Side::kValue) continue;
            const std::vector<float> row = problem.Row(side, cell), expected = alone.Row(side, cell);
            for (int i = 0; i < width; ++i) ASSERT_EQ(row[head * width + i], expected[head * width + i]) << "head " << head << " cell " << cell;
          }
        }
        capacity += alone.cache().CapacityBytes(Side::kKey) / heads.size();
      }
      EXPECT_NEAR(static_cast<double>(problem.cache().CapacityBytes(Side::kKey)), static_cast<double>(capacity), 4.0 * 4096);
      for (int queries : {1, 2, 40}) {
        EXPECT_LT(problem.AttentionError(*kernels, queries, 555), 0.03) << queries << " queries";
        EXPECT_LT(problem.AttentionError(*kernels, queries, 555, 1), 0.03) << queries << " queries of the second stream";
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

TEST(LayerCache, DeferringPacksNothingBeforeThePromptIsOver) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  Problem problem({.spec = "k=tcq3,v=tcq3,transform=full,defer=prefill", .cells = 1280});
  for (int64_t token = 0; token < 900; token += 100) {
    EXPECT_EQ(problem.Pack(kernels, 100), 0u);
    EXPECT_EQ(problem.Pack(kernels, 100), 0u) << "a second round before the same batch";
    problem.Write(token, token + 100);
  }
  EXPECT_EQ(problem.cache().Count().packed, 0);
  EXPECT_EQ(problem.cache().Count().batches_deferred, 7) << "from 200 tokens on a group was full";
  EXPECT_EQ(problem.Pack(kernels, kDecodeTokens + 1), 0u);
  EXPECT_EQ(problem.Pack(kernels, kDecodeTokens), 7u * 4) << "7 groups, 2 heads, keys and values";
  EXPECT_EQ(problem.cache().Count().packed, 7 * 128);
  EXPECT_LT(problem.AttentionError(kernels, 3, 900), 0.04);
  // Many sequences that bring a token each are no prompt.
  problem.Write(900, 1100);
  EXPECT_EQ(problem.Pack(kernels, 64, 1), 4u);
}

// A shift rewrites keys alone. Attention reads both sides of a cell from one place, so these cannot wait for the end of a prompt.
TEST(LayerCache, DeferringDoesNotSeparateKeysFromTheirValues) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  Problem problem({.spec = "k=tcq3,v=tcq3,transform=full,defer=prefill", .cells = 1280});
  problem.Write(0, 300);
  ASSERT_GT(problem.Pack(kernels, 1), 0u);
  for (int64_t cell = 0; cell < 128; ++cell) problem.cache().MarkWritten(Side::kKey, cell, LayerCache::kKeepPin);
  EXPECT_EQ(problem.Pack(kernels, 200), 2u);
  EXPECT_EQ(problem.cache().Count().packed, 256);
}

TEST(LayerCache, ABudgetEndsDeferring) {
  const Kernels& kernels = KernelsFor(Target::kPortable);
  constexpr size_t kBudget = 1 << 20;  // 2048 tokens of 2 heads of 64 as f16
  Problem problem({.spec = "k=tcq4,v=tcq4,transform=full,defer=prefill,budget=1M", .cells = 8192});
  for (int64_t token = 0; token < 8192; token += 256) {
    for (int round = 0; round < 4; ++round) problem.Pack(kernels, 256);
    problem.Write(token, token + 256);
    ASSERT_LE(problem.cache().Bytes(), kBudget) << token << " tokens";
    if (token < 1536) {
      EXPECT_EQ(problem.cache().Count().packed, 0) << token;
    }
  }
  EXPECT_GT(problem.cache().Count().packed, 0);
  EXPECT_GT(problem.cache().Count().batches_deferred, 4);
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
