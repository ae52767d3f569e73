// A made-up evaluation of ten caches, as full as a real one: what pages and tables are tested with.
#ifndef SWIVEL_EVAL_TEST_REPORT_H_
#define SWIVEL_EVAL_TEST_REPORT_H_

#include <cmath>
#include <string>
#include <vector>

#include "base/random.h"
#include "eval/report.h"

namespace swivel {

// Divergences with a common difficulty of each token and the heavy tail that real ones have.
inline Series SampleSeries(size_t length, double size, uint64_t own_seed, uint64_t text_seed) {
  Series series(length);
  Random text(text_seed), own(own_seed);
  double difficulty = 0;
  for (size_t i = 0; i < length; ++i) {
    difficulty = 0.7 * difficulty + text.Normal();
    series.kld[i] = static_cast<float>(size * std::exp(0.9 * difficulty + 0.5 * own.Normal() - 1));
    series.nll[i] = static_cast<float>(2.8 + 0.3 * text.Normal() + 0.5 * size);
    series.delta_p[i] = static_cast<float>(-0.2 * size);
    series.same_top1[i] = own.Uniform() < 1.2 * std::sqrt(size) / (1 + 4 * size) ? 0 : 1;
    series.top5_overlap[i] = static_cast<float>(own.Below(100) < 100 - static_cast<int>(100 * std::sqrt(size)) ? 1 : 0.8);
  }
  return series;
}

inline EvalReport SampleReport(bool with_tasks = true, bool with_speed = true) {
  struct Sample {
    const char* name;
    double bits, kld;
  };
  const std::vector<Sample> samples = {{"f16", 16, 0},          {"q8_0", 8.5, 0.0015}, {"q4_0", 4.5, 0.045},
                                       {"turbo4", 4.25, 0.048}, {"tcq4", 4.25, 0.028}, {"turbo3", 3.25, 0.19},
                                       {"tcq3", 3.25, 0.044},   {"tcq2", 2.25, 0.55},  {"k=tcq4,v=tcq3,boundary=2:q8_0", 3.98, 0.034},
                                       {"stock:q5_1", 6, 0.012}};
  EvalReport report;
  report.model = "models/SmolLM2-135M-Instruct-Q4_1.gguf";
  report.model_description = "llama 135M Q4_1";
  report.text = "texts/wiki.test.raw";
  report.weights = "as-is";
  report.reference = "q4_0";
  report.cpu = "made up";
  report.target = "portable";
  report.llama_build = "0.0.1";
  report.command = "swivel eval -m model.gguf -f wiki.test.raw --tasks all --html out.html";
  report.depth = 2048;
  report.rounds = 3;
  report.options.chunks = 3;
  QualityReport& quality = report.quality;
  quality.chunks = 3;
  quality.token_hash = "00112233";
  Store store;
  auto add = [&](const std::string& name, const std::string& unit, Record record) { (void)store.Add(name, unit, std::move(record)); };
  for (uint64_t c = 0; c < 3; ++c) add(kFloorName, ChunkUnit(static_cast<int>(c)), ToRecord(Series(1023)));
  add(kFloorName, DecodeUnit(2, 128, 1), ToRecord(SampleSeries(128, 0.003, 1, 7)));
  for (size_t i = 0; i < samples.size(); ++i) {
    CacheQuality cache;
    cache.cache = *ParseCacheChoice(samples[i].name);
    cache.use.bits_per_value = samples[i].bits;
    cache.use.cache_bytes = static_cast<int64_t>(samples[i].bits / 16 * 47185920);
    cache.use.full_bytes = cache.use.cache_bytes;
    const std::string name = i == 0 ? kBaseName : StoreName(cache.cache);
    for (uint64_t c = 0; c < 3; ++c) {
      Series series = SampleSeries(1023, samples[i].kld, 10 * i + c, 100 + c);
      if (i == 0) series.kld.assign(1023, 0);
      add(name, ChunkUnit(static_cast<int>(c)), ToRecord(series));
    }
    for (int step : {1, 4}) add(name, DecodeUnit(2, 128, step), ToRecord(SampleSeries(128, samples[i].kld, 900 + i, 102)));
    for (int t = 0; t < report.options.trajectories; ++t) {
      Record record;
      record.numbers["until"] = std::min(64.0, std::floor(3 / (samples[i].kld + 0.02) * (t + 1) / 8));
      record.numbers["length"] = 64;
      add(name, TrajectoryUnit(t, report.options), record);
    }
    quality.caches.push_back(std::move(cache));
    if (!with_speed) continue;
    Measurement speed;
    speed.prefill_tps = 900 - 3 * static_cast<double>(i);
    speed.decode_tps = 30 + 4 * static_cast<double>(i);
    speed.peak_rss_bytes = (int64_t{300} << 20) - (static_cast<int64_t>(i) << 21);
    report.speed.push_back(speed);
  }
  if (with_speed) {
    report.depths = {2048, 4096, 8192};
    for (const int depth : report.depths) {
      report.speed_at.push_back(report.speed);
      for (Measurement& speed : report.speed_at.back()) *speed.decode_tps *= 3000.0 / (1000 + depth);
    }
    report.speed = report.speed_at[0];
  }
  Assemble(store, report.options, &quality);
  for (CacheQuality& cache : quality.caches) {
    if (cache.worst) cache.worst->text = " <b>&";
  }
  if (with_tasks) {
    std::vector<Outcomes> base(4);
    for (size_t i = 0; i < samples.size(); ++i) {
      for (size_t t = 0; t < 4; ++t) {
        Outcomes outcomes;
        Random random(40 + t + 10 * i);
        for (int item = 0; item < (t == 1 ? 60 : 12); ++item) {
          outcomes.log_p.push_back(static_cast<float>(-samples[i].kld * (1 + random.Uniform())));
          outcomes.passed.push_back(random.Uniform() < 0.93 - samples[i].kld ? 1 : 0);
          outcomes.value.push_back(t == 3   ? static_cast<float>(0.3 + 0.1 * random.Uniform() + samples[i].kld)
                                   : t == 1 ? static_cast<float>(600 + item / kNeedleDepths * 482)
                                            : 0);
        }
        if (i == 0) base[t] = outcomes;
        quality.caches[i].tasks.push_back(ScoreTask(kAllTasks[t], outcomes, base[t]));
      }
    }
  }
  SetVerdicts(&report);
  report.sensitivity.kv = "turbo3";
  report.sensitivity.positions = 1023;
  for (int layer = 0; layer < 30; ++layer) {
    report.sensitivity.k.emplace_back(0.002 * std::exp(-layer / 8.0));
    report.sensitivity.v.emplace_back(layer == 17 ? std::nullopt : std::optional<double>(0.0003 * (1 + layer % 5)));
  }
  return report;
}

}  // namespace swivel

#endif  // SWIVEL_EVAL_TEST_REPORT_H_
