// Assemble: from what was stored to figures.
#include "eval/quality.h"

#include <fmt/format.h>

#include <algorithm>

namespace swivel {
namespace {

constexpr const char* kCounter = "counter.";  // numbers of a record that the plugin counted

Agreement Agree(Series series, int first_position) {
  Agreement agreement;
  agreement.series = std::move(series);
  const Series& all = agreement.series;
  if (all.size() == 0) return agreement;
  const std::vector<double> kld = Widen(all.kld);
  agreement.kld = Summarize(kld, all.runs);
  agreement.same_top1 = MeanByBlocks(Widen(all.same_top1), all.runs);
  agreement.top5_overlap = MeanByBlocks(Widen(all.top5_overlap), all.runs);
  agreement.mean_delta_p = MeanByBlocks(Widen(all.delta_p), all.runs);
  if (agreement.kld.invalid == 0) agreement.by_position = MeansByPosition(kld, all.runs, first_position);
  return agreement;
}

Series Collect(const Store& store, const std::string& name, int chunks) {
  Series series;
  for (int c = 0; c < chunks; ++c) {
    const Record* record = store.Find(name, ChunkUnit(c));
    // All or nothing: figures of other chunks than the base's would be compared with them.
    if (record == nullptr) return Series();
    series.Append(ToSeries(*record));
  }
  return series;
}

Agreement DecodeAgreement(const Store& store, const std::string& name, const QualityOptions& options, int chunks, int step) {
  const Record* record = store.Find(name, DecodeUnit(chunks - 1, options.decode_tokens, step));
  return record == nullptr ? Agreement() : Agree(ToSeries(*record), options.context_tokens - (step == 1 ? 1 : 2) * options.decode_tokens);
}

std::optional<TrajectoryFigures> Trajectories(const Store& store, const std::string& name, const QualityOptions& options) {
  TrajectoryFigures figures;
  figures.tokens = options.trajectory_tokens;
  std::vector<double> until;
  for (int t = 0; t < options.trajectories; ++t) {
    const Record* record = store.Find(name, TrajectoryUnit(t, options));
    if (record == nullptr || !record->numbers.contains("until")) return std::nullopt;
    figures.until.push_back(static_cast<int>(record->numbers.at("until")));
    figures.length.push_back(static_cast<int>(record->numbers.at("length")));
    until.push_back(figures.until.back());
    figures.never += figures.until.back() == figures.length.back() ? 1 : 0;
  }
  figures.count = options.trajectories;
  if (figures.count == 0) return std::nullopt;
  figures.median_until = Median(until);
  return figures;
}

void AddCounters(const Record* record, std::map<std::string, int64_t>* counters) {
  if (record == nullptr) return;
  for (const auto& [name, number] : record->numbers) {
    if (!name.starts_with(kCounter)) continue;
    const std::string counter = name.substr(std::string(kCounter).size());
    int64_t& sum = (*counters)[counter];
    sum = IsState(counter) ? std::max(sum, static_cast<int64_t>(number)) : sum + static_cast<int64_t>(number);
  }
}

void AssembleCache(const Store& store, const QualityOptions& options, const QualityReport& report, CacheQuality* quality) {
  const bool is_base = quality == &report.caches[0];
  const std::string name = is_base ? kBaseName : StoreName(quality->cache);
  Series series = Collect(store, name, report.chunks);
  if (series.size() == 0) return;
  quality->perplexity = Perplexity(Widen(series.nll), series.runs);
  if (is_base) {
    quality->prefill.series = std::move(series);
  } else {
    const Series& base = report.caches[0].prefill.series;
    std::vector<double> difference(std::min(base.size(), series.size()));
    for (size_t i = 0; i < difference.size(); ++i) difference[i] = double{series.nll[i]} - double{base.nll[i]};
    quality->log_ppl_ratio = MeanByBlocks(difference, series.runs);
    quality->prefill = Agree(std::move(series), options.first_scored());
    quality->decode = DecodeAgreement(store, name, options, report.chunks, 1);
    quality->decode4 = DecodeAgreement(store, name, options, report.chunks, 4);
    quality->trajectories = Trajectories(store, name, options);
  }
  for (int c = 0; c < report.chunks; ++c) AddCounters(store.Find(name, ChunkUnit(c)), &quality->counters);
  for (int step : {1, 4}) AddCounters(store.Find(name, DecodeUnit(report.chunks - 1, options.decode_tokens, step)), &quality->counters);
  for (int t = 0; t < options.trajectories; ++t) AddCounters(store.Find(name, TrajectoryUnit(t, options)), &quality->counters);
  if (quality->prefill.kld.max_at) {
    const size_t length = quality->prefill.series.runs[0];
    quality->worst = TextPlace{static_cast<int>(*quality->prefill.kld.max_at / length),
                               options.first_scored() + static_cast<int>(*quality->prefill.kld.max_at % length),
                               {}};
  }
}

}  // namespace

bool IsState(const std::string& counter) { return counter.ends_with("_cells") || counter.ends_with("_layers") || counter.ends_with("_used"); }

std::string StoreName(const CacheChoice& cache) { return cache.stock ? fmt::format("stock:{}", cache.ggml_type) : "swivel:" + cache.spec; }
std::string ChunkUnit(int chunk) { return fmt::format("chunk {}", chunk); }
std::string DecodeUnit(int chunk, int decode_tokens, int step) { return fmt::format("decoded {} {}x{}", chunk, decode_tokens, step); }
std::string TrajectoryUnit(int index, const QualityOptions& options) {
  return fmt::format("own text {}/{}x{}", index, options.trajectories, options.trajectory_tokens);
}

void Assemble(const Store& store, const QualityOptions& options, QualityReport* report) {
  report->floor = Agree(Collect(store, kFloorName, 1), options.first_scored());
  report->floor_decode = DecodeAgreement(store, kFloorName, options, report->chunks, 1);
  for (CacheQuality& quality : report->caches) {
    if (quality.refusal.empty()) AssembleCache(store, options, *report, &quality);
  }
}

}  // namespace swivel
