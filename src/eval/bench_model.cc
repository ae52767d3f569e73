#include "eval/bench_model.h"

#include <algorithm>

#include "eval/bench_ops.h"
#include "eval/measure.h"
#include "eval/system_info.h"

namespace swivel {
namespace {

ModelRow Row(const BenchModelOptions& options, const CacheChoice& cache, int depth, const Measurement& measured,
             const std::optional<double>& f16, bool prefill) {
  ModelRow row;
  row.kv = BenchName(cache);
  row.op = prefill ? "prefill" : "decode";
  row.depth = depth;
  row.num_tokens = prefill ? options.prompt : options.generate;
  if (!cache.stock) row.target = TargetName(options.target);
  row.tps_median = prefill ? measured.prefill_tps : measured.decode_tps;
  row.tps_min = prefill ? measured.prefill_tps_min : measured.decode_tps_min;
  row.tps_max = prefill ? measured.prefill_tps_max : measured.decode_tps_max;
  if (row.tps_median && f16) row.ratio_f16 = *row.tps_median / *f16;
  row.peak_rss_bytes = measured.peak_rss_bytes;
  row.failure = measured.failure;
  return row;
}

}  // namespace

StatusOr<std::vector<ModelRow>> BenchModel(const BenchModelOptions& options, Progress* progress) {
  std::vector<MeasureRequest> requests;
  for (const int depth : options.depths) {
    for (const CacheChoice& cache : options.caches) {
      MeasureRequest request;
      request.model = options.model;
      request.kv = cache.name;
      request.depth = depth;
      request.prompt = options.prompt;
      request.generate = options.generate;
      request.threads = options.threads;
      requests.push_back(request);
    }
  }
  const OthersBusy others;
  StatusOr<std::vector<Measurement>> measured = MeasureAll(requests, options.rounds, progress);
  if (!measured.ok()) return measured.status();
  std::vector<ModelRow> rows;
  const size_t num_caches = options.caches.size();
  for (size_t d = 0; d < options.depths.size(); ++d) {
    const Measurement* at_depth = measured->data() + d * num_caches;
    Measurement f16;
    for (size_t i = 0; i < num_caches; ++i) {
      if (BenchName(options.caches[i]) == "stock:f16") f16 = at_depth[i];
    }
    for (size_t i = 0; i < num_caches; ++i) {
      rows.push_back(Row(options, options.caches[i], options.depths[d], at_depth[i], f16.prefill_tps, /*prefill=*/true));
      rows.push_back(Row(options, options.caches[i], options.depths[d], at_depth[i], f16.decode_tps, /*prefill=*/false));
    }
  }
  const std::optional<double> busy = others.Processors();
  for (ModelRow& row : rows) row.others_busy = busy;
  return rows;
}

}  // namespace swivel
