#include "eval/bench_ops.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <memory>
#include <span>

#include "eval/metrics.h"
#include "eval/packed_attention.h"
#include "eval/system_info.h"
#include "eval/thread_team.h"
#include "llama/stock_attention.h"

namespace swivel {
namespace {

constexpr int64_t kDistinctCells = 512;
constexpr double kLayersBytes = 64 << 20;
constexpr int kMaxLayers = 32;
constexpr double kTurnSeconds = 0.03;  // of a fast candidate in a round
constexpr double kWarmSeconds = 0.5;
constexpr double kMaxSeconds = 10;

using Clock = std::chrono::steady_clock;

struct Candidate {
  OpRow row;
  std::unique_ptr<PackedAttention> packed;  // one of the two, unless row.failure says why
  std::unique_ptr<StockAttention> stock;
  int num_layers = 1;
  int next_layer = 0;
  double seconds = 0;
  double last_seconds = 0;
  std::vector<double> samples;

  size_t CacheBytes() const { return packed ? packed->CacheBytes() : stock->CacheBytes(); }
};

// Sums memory: what the same threads can read at most.
class Stream {
 public:
  explicit Stream(ThreadTeam* team) : team_(team), sums_(static_cast<size_t>(team->size()) * 8) {
    const int64_t spare = AvailableMemoryBytes().value_or(int64_t{1} << 32) / 8;
    words_.assign(static_cast<size_t>(std::clamp<int64_t>(spare, 16 << 20, 512 << 20)) / sizeof(uint64_t), 1);
  }

  void Measure() {
    const auto begin = Clock::now();
    team_->Run([this](int thread) {
      const size_t share = words_.size() / static_cast<size_t>(team_->size());
      const uint64_t* words = &words_[share * static_cast<size_t>(thread)];
      uint64_t sum = 0;
      for (size_t i = 0; i < share; ++i) sum += words[i];
      sums_[static_cast<size_t>(thread) * 8] = sum;  // a result that is kept cannot be left out by the compiler
    });
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    samples_.push_back(static_cast<double>(words_.size() * sizeof(uint64_t)) / seconds * 1e-9);
  }

  double Gbps() const { return Median(samples_); }
  void Forget() { samples_.clear(); }

 private:
  ThreadTeam* team_;
  std::vector<uint64_t> words_;
  std::vector<uint64_t> sums_;
  std::vector<double> samples_;
};

int NumLayers(double bytes_per_value, const AttentionShape& shape) {
  const double bytes = 2 * bytes_per_value * static_cast<double>(shape.RowValues()) * static_cast<double>(shape.num_cells);
  return static_cast<int>(std::clamp(kLayersBytes / bytes + 1, 1.0, static_cast<double>(kMaxLayers)));
}

Status Prepare(const CacheChoice& cache, AttentionShape shape, const AttentionData& data, const Kernels& kernels, ThreadTeam* team,
               Candidate* candidate) {
  if (!cache.stock) {
    StatusOr<CacheSpec> spec = ParseSpec(cache.spec);
    if (!spec.ok()) return spec.status();
    for (const CodecId id : {spec->k, spec->v}) {
      if (Status status = CheckWidth(GetCodec(id), shape.head_width); !status.ok()) return status;
    }
    candidate->num_layers = shape.num_layers = NumLayers(spec->BitsPerValue(shape.head_width, shape.head_width, 1 << 20, shape.num_kv_heads) / 8, shape);
    StatusOr<std::unique_ptr<PackedAttention>> made = PackedAttention::Create(*spec, shape, data, kernels, team);
    if (!made.ok()) return made.status();
    candidate->packed = std::move(*made);
    candidate->row.target = TargetName(kernels.target);
    return {};
  }
  candidate->num_layers = shape.num_layers = NumLayers(1.0, shape);
  StatusOr<std::unique_ptr<StockAttention>> made = StockAttention::Create(cache.ggml_type, shape, team->size());
  if (!made.ok()) return made.status();
  candidate->stock = std::move(*made);
  for (int64_t cell = 0; cell < shape.num_cells; ++cell) candidate->stock->SetCell(cell, data.K(cell), data.V(cell));
  candidate->stock->SetQueries(data.q, data.mask);
  return {};
}

Status Call(Candidate* candidate) {
  const auto begin = Clock::now();
  const int layer = candidate->next_layer;
  candidate->next_layer = (layer + 1) % candidate->num_layers;
  if (candidate->packed) {
    candidate->packed->Run(layer);
  } else if (Status status = candidate->stock->Run(layer); !status.ok()) {
    return status;
  }
  candidate->last_seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  candidate->seconds += candidate->last_seconds;
  return {};
}

Status Turn(Candidate* candidate) {
  if (candidate->seconds > kMaxSeconds) return {};
  double turn = 0;
  // The first call of a turn wakes threads and maps pages. It counts only where calls are slow: there that does not matter.
  if (candidate->last_seconds < kWarmSeconds) {
    if (Status status = Call(candidate); !status.ok()) return status;
    if (candidate->last_seconds >= kWarmSeconds) {
      candidate->samples.push_back(candidate->last_seconds);
      turn = candidate->last_seconds;
    }
  }
  while (turn < kTurnSeconds) {
    if (Status status = Call(candidate); !status.ok()) return status;
    candidate->samples.push_back(candidate->last_seconds);
    turn += candidate->last_seconds;
  }
  if (candidate->stock) candidate->stock->Park();
  return {};
}

void Finish(double stream_gbps, Candidate* candidate) {
  OpRow& row = candidate->row;
  std::vector<double>& samples = candidate->samples;
  if (!row.failure.empty() || samples.empty()) return;
  std::sort(samples.begin(), samples.end());
  row.calls = static_cast<int>(samples.size());
  row.ms = 1e3 * Percentile(samples, 0.5);
  if (samples.size() >= 3) {
    row.ms_min = 1e3 * samples.front();
    row.ms_max = 1e3 * samples.back();
    row.ms_p10 = 1e3 * Percentile(samples, 0.1);
    row.ms_p90 = 1e3 * Percentile(samples, 0.9);
  }
  row.gbps = static_cast<double>(candidate->CacheBytes()) / *row.ms * 1e-6;
  row.share_of_stream = *row.gbps / stream_gbps;
}

// All candidates of one size.
std::vector<OpRow> BenchSize(const BenchOpsOptions& options, const OpSize& size, ThreadTeam* team, Stream* stream, Progress* progress) {
  AttentionShape shape;
  shape.head_width = options.head_width;
  shape.num_heads = options.num_heads;
  shape.num_kv_heads = options.num_kv_heads;
  shape.num_queries = size.num_queries;
  shape.num_cells = size.num_cells;
  const AttentionData data(shape, kDistinctCells);
  const Kernels& kernels = KernelsFor(options.target);
  const std::string label = fmt::format("{} of {} on {}", size.op, size.num_queries, size.num_cells);

  std::vector<Candidate> candidates(options.caches.size());
  for (size_t i = 0; i < candidates.size(); ++i) {
    progress->Advance(0, fmt::format("{}: filling {}", label, BenchName(options.caches[i])));
    candidates[i].row.kv = BenchName(options.caches[i]);
    candidates[i].row.size = size;
    Status status = Prepare(options.caches[i], shape, data, kernels, team, &candidates[i]);
    if (!status.ok()) candidates[i].row.failure = status.message();
  }
  stream->Forget();
  const OthersBusy others;
  for (int round = 0; round < options.rounds; ++round) {
    stream->Measure();
    for (Candidate& candidate : candidates) {
      if (!candidate.row.failure.empty()) continue;
      progress->Advance(0, fmt::format("{}, round {}/{}: {}", label, round + 1, options.rounds, candidate.row.kv));
      if (Status status = Turn(&candidate); !status.ok()) candidate.row.failure = status.message();
    }
    progress->Advance(1, "");
  }
  const std::optional<double> busy = others.Processors();
  const auto calls_a_ms = [](const OpRow& row) { return row.ms ? std::optional(1 / *row.ms) : std::nullopt; };
  StockFigures stock;
  for (Candidate& candidate : candidates) {
    Finish(stream->Gbps(), &candidate);
    candidate.row.others_busy = busy;
    KeepStock(candidate.row.kv, calls_a_ms(candidate.row), &stock);
  }
  std::vector<OpRow> rows;
  for (Candidate& candidate : candidates) {
    candidate.row.ratio = TimesAsFast(calls_a_ms(candidate.row), stock);
    rows.push_back(std::move(candidate.row));
  }
  return rows;
}

}  // namespace

std::string BenchName(const CacheChoice& cache) {
  return cache.stock && !cache.name.starts_with("stock:") ? "stock:" + cache.name : cache.name;
}

void KeepStock(const std::string& kv, std::optional<double> speed, StockFigures* speeds) {
  if (kv == "stock:f16") speeds->f16 = speed;
  if (kv == "stock:q8_0") speeds->q8_0 = speed;
  if (kv == "stock:q4_0") speeds->q4_0 = speed;
}

StockFigures TimesAsFast(std::optional<double> speed, const StockFigures& speeds) {
  const auto times = [speed](const std::optional<double>& other) { return speed && other ? std::optional(*speed / *other) : std::nullopt; };
  return {times(speeds.f16), times(speeds.q8_0), times(speeds.q4_0)};
}

StatusOr<std::vector<OpRow>> BenchOps(const BenchOpsOptions& options, Progress* progress) {
  ThreadTeam team(options.threads);
  Stream stream(&team);
  std::vector<OpRow> rows;
  progress->Begin(static_cast<double>(options.sizes.size()) * options.rounds);
  for (const OpSize& size : options.sizes) {
    if (size.num_queries < 1 || size.num_queries > size.num_cells) {
      return Status::Invalid(fmt::format("{} of {} queries on {} tokens: the queries are the last of the tokens, so there are at most {}",
                                         size.op, size.num_queries, size.num_cells, size.num_cells));
    }
    std::vector<OpRow> more = BenchSize(options, size, &team, &stream, progress);
    rows.insert(rows.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
  }
  progress->Clear();
  return rows;
}

}  // namespace swivel
