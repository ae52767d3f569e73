#include "eval/bench_model.h"

#include <fmt/format.h>

#include <algorithm>

#include "eval/bench_ops.h"
#include "eval/measure.h"
#include "eval/system_info.h"

namespace swivel {
namespace {

ModelRow Row(const BenchModelOptions& options, const CacheChoice& cache, int depth, const Measurement& measured,
             const StockFigures& stock, bool prefill) {
  ModelRow row;
  row.kv = BenchName(cache);
  row.test = fmt::format("{}{}", prefill ? "pp" : "tg", prefill ? options.prompt : options.generate);
  row.depth = depth;
  row.num_tokens = prefill ? options.prompt : options.generate;
  if (!cache.stock) row.target = TargetName(options.target);
  row.tps = prefill ? measured.prefill_tps : measured.decode_tps;
  row.tps_min = prefill ? measured.prefill_tps_min : measured.decode_tps_min;
  row.tps_max = prefill ? measured.prefill_tps_max : measured.decode_tps_max;
  row.tps_sd = prefill ? measured.prefill_tps_sd : measured.decode_tps_sd;
  row.ratio = TimesAsFast(row.tps, stock);
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
    StockFigures prefill, decode;
    for (size_t i = 0; i < num_caches; ++i) {
      KeepStock(BenchName(options.caches[i]), at_depth[i].prefill_tps, &prefill);
      KeepStock(BenchName(options.caches[i]), at_depth[i].decode_tps, &decode);
    }
    for (size_t i = 0; i < num_caches; ++i) {
      rows.push_back(Row(options, options.caches[i], options.depths[d], at_depth[i], prefill, /*prefill=*/true));
      rows.push_back(Row(options, options.caches[i], options.depths[d], at_depth[i], decode, /*prefill=*/false));
    }
  }
  const std::optional<double> busy = others.Processors();
  for (ModelRow& row : rows) row.others_busy = busy;
  return rows;
}

}  // namespace swivel
