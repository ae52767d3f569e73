// ReportJson and ReportCsv: every figure at full precision.
#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "base/version.h"
#include "eval/report.h"

namespace swivel {
namespace {

using Json = nlohmann::ordered_json;

// NaN and infinity become null when dumped; the count beside them ("invalid") says why.
template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

Json MeanOf(const std::optional<MeanError>& value) { return value ? Json(value->mean) : Json(); }
Json ErrorOf(const std::optional<MeanError>& value) { return value ? OrNull(value->error) : Json(); }

Json KldJson(const Summary& kld) {
  return {{"mean", OrNull(kld.mean)}, {"mean_err", OrNull(kld.mean_err)}, {"median", OrNull(kld.median)},
          {"p90", OrNull(kld.p90)},   {"p99", OrNull(kld.p99)},           {"p999", OrNull(kld.p999)},
          {"max", OrNull(kld.max)},   {"positions", kld.positions},       {"invalid", kld.invalid}};
}

Json AgreementJson(const Agreement& agreement) {
  Json json = KldJson(agreement.kld);
  json["same_top1"] = MeanOf(agreement.same_top1);
  json["same_top1_err"] = ErrorOf(agreement.same_top1);
  return json;
}

Json ResultJson(const CacheQuality& cache, const Measurement* speed) {
  Json json;
  json["kv"] = cache.cache.name;
  json["stock"] = cache.cache.stock;
  json["bits_per_value"] = OrNull(cache.use.bits_per_value);
  json["cache_bytes"] = OrNull(cache.use.cache_bytes);
  json["cache_resident_bytes"] = speed != nullptr ? OrNull(speed->resident_bytes) : Json();
  json["peak_rss_bytes"] = speed != nullptr ? OrNull(speed->peak_rss_bytes) : Json();
  json["ppl"] = MeanOf(cache.perplexity);
  json["ppl_err"] = ErrorOf(cache.perplexity);
  json["log_ppl_ratio"] = MeanOf(cache.log_ppl_ratio);
  json["log_ppl_ratio_err"] = ErrorOf(cache.log_ppl_ratio);
  json["kld"] = KldJson(cache.prefill.kld);
  json["same_top1"] = MeanOf(cache.prefill.same_top1);
  json["same_top1_err"] = ErrorOf(cache.prefill.same_top1);
  json["decode_kld"] = AgreementJson(cache.decode);
  json["prefill_tps"] = speed != nullptr ? OrNull(speed->prefill_tps) : Json();
  json["decode_tps"] = speed != nullptr ? OrNull(speed->decode_tps) : Json();
  if (!cache.refusal.empty()) json["refusal"] = cache.refusal;
  if (speed != nullptr && !speed->failure.empty()) json["speed_failure"] = speed->failure;
  return json;
}

}  // namespace

std::string ReportJson(const EvalReport& report) {
  Json json;
  json["model"] = report.model;
  json["text"] = report.text;
  json["n_ctx"] = report.options.context_tokens;
  json["chunks"] = report.quality.chunks;
  json["floor"] = AgreementJson(report.quality.floor);
  json["floor"]["decode_kld"] = AgreementJson(report.quality.floor_decode);
  json["results"] = Json::array();
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    json["results"].push_back(ResultJson(report.quality.caches[i], i < report.speed.size() ? &report.speed[i] : nullptr));
  }
  json["decode_tokens"] = report.options.decode_tokens;
  json["depth"] = report.speed.empty() ? Json() : Json(report.depth);
  json["rounds"] = report.speed.empty() ? Json() : Json(report.rounds);
  json["weights"] = report.weights;
  json["model_description"] = report.model_description;
  json["threads"] = report.options.threads;
  json["cpu"] = report.cpu;
  json["target"] = report.target;
  json["version"] = SWIVEL_VERSION;
  json["llama_cpp"] = report.llama_build;
  json["block_positions"] = BlockLength(report.quality.floor.kld.positions);
  json["logit_batch"] = report.quality.logit_batch;
  json["memory_bound_bytes"] = report.quality.memory_bound_bytes;
  json["command"] = report.command;
  // A path may hold bytes that are not UTF-8; they must not cost the whole report.
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

std::string ReportCsv(const EvalReport& report) {
  // From the same record as the JSON, so that the two cannot disagree.
  const Json json = Json::parse(ReportJson(report), nullptr, /*allow_exceptions=*/false);
  std::string text =
      "kv,bits_per_value,cache_bytes,peak_rss_bytes,ppl,ppl_err,kld_mean,kld_mean_err,kld_median,kld_p99,kld_p999,kld_max,same_top1,"
      "same_top1_err,decode_kld_mean,decode_kld_mean_err,decode_kld_p99,decode_same_top1,prefill_tps,decode_tps\n";
  for (const Json& row : json["results"]) {
    const Json& kld = row["kld"];
    const Json& decode = row["decode_kld"];
    text += fmt::format("\"{}\"", row["kv"].get<std::string>());
    for (const Json& cell :
         {row["bits_per_value"], row["cache_bytes"], row["peak_rss_bytes"], row["ppl"], row["ppl_err"], kld["mean"], kld["mean_err"],
          kld["median"], kld["p99"], kld["p999"], kld["max"], row["same_top1"], row["same_top1_err"], decode["mean"], decode["mean_err"],
          decode["p99"], decode["same_top1"], row["prefill_tps"], row["decode_tps"]}) {
      text += ',';
      if (!cell.is_null()) text += cell.dump();
    }
    text += "\n";
  }
  return text;
}

}  // namespace swivel
