// ReportJson and ReportCsv: every figure at full precision.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "eval/report.h"
#include "eval/store.h"

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

Json BucketsJson(const std::vector<PositionBucket>& buckets) {
  Json json = Json::array();
  for (const PositionBucket& bucket : buckets) {
    json.push_back({{"begin", bucket.begin},
                    {"end", bucket.end},
                    {"positions", bucket.positions},
                    {"mean", bucket.mean.mean},
                    {"mean_err", OrNull(bucket.mean.error)}});
  }
  return json;
}

Json VerdictJson(const PairedDifference& difference) {
  if (difference.verdict == Verdict::kNotMeasured) return {{"verdict", nullptr}};
  return {{"verdict", VerdictName(difference.verdict)},
          {"difference", difference.difference},
          {"low", difference.low},
          {"high", difference.high},
          {"ratio", difference.ratio},
          {"blocks", difference.blocks}};
}

Json TrajectoriesJson(const std::optional<TrajectoryFigures>& figures) {
  if (!figures) return Json();
  return {{"count", figures->count}, {"tokens", figures->tokens}, {"median_until", figures->median_until},
          {"never", figures->never}, {"until", figures->until},   {"length", figures->length}};
}

Json TasksJson(const std::vector<TaskScore>& tasks) {
  Json json = Json::object();
  for (const Task task : kAllTasks) json[TaskName(task)] = nullptr;  // not asked for
  for (const TaskScore& score : tasks) {
    Json& entry = json[TaskName(score.task)];
    entry = {{"items", score.items}, {"passed", score.passed}, {"base_passed", score.base_passed}, {"kept", score.kept}};
    const bool measured = score.not_measured.empty();
    entry["kept_share"] = measured ? Json(static_cast<double>(score.kept) / score.base_passed) : Json();
    entry["low"] = measured ? Json(score.interval.low) : Json();
    entry["high"] = measured ? Json(score.interval.high) : Json();
    if (!measured) entry["not_measured"] = score.not_measured;
    if (score.answer_log_p) {
      entry["answer_log_p"] = MeanOf(score.answer_log_p);
      entry["answer_log_p_err"] = ErrorOf(score.answer_log_p);
    }
    if (score.task == Task::kRepeat) {
      entry["repeated"] = score.mean_value;
      entry["base_repeated"] = score.base_mean_value;
    }
    if (score.task == Task::kNeedle) {
      entry["lengths"] = score.lengths;
      entry["grid"] = score.grid;
    }
  }
  return json;
}

Json PoliciesJson(const CacheQuality& cache) {
  Json json = Json::object();
  for (const PolicyUse& policy : PoliciesOf(cache)) json[policy.key] = OrNull(policy.acted);
  return json;
}

Json AgreementJson(const Agreement& agreement) {
  Json json = KldJson(agreement.kld);
  json["same_top1"] = MeanOf(agreement.same_top1);
  json["same_top1_err"] = ErrorOf(agreement.same_top1);
  json["top5_overlap"] = MeanOf(agreement.top5_overlap);
  return json;
}

Json ResultJson(const EvalReport& report, size_t index) {
  const CacheQuality& cache = report.quality.caches[index];
  const Measurement* speed = index < report.speed.size() ? &report.speed[index] : nullptr;
  Json json;
  json["kv"] = cache.cache.name;
  json["stock"] = cache.cache.stock;
  json["bits_per_value"] = OrNull(cache.use.bits_per_value);
  json["cache_bytes"] = OrNull(cache.use.cache_bytes);
  json["full_cache_bytes"] = OrNull(cache.use.full_bytes);
  json["cache_resident_bytes"] = speed != nullptr ? OrNull(speed->resident_bytes) : Json();
  json["peak_rss_bytes"] = speed != nullptr ? OrNull(speed->peak_rss_bytes) : Json();
  json["ppl"] = MeanOf(cache.perplexity);
  json["ppl_err"] = ErrorOf(cache.perplexity);
  json["log_ppl_ratio"] = MeanOf(cache.log_ppl_ratio);
  json["log_ppl_ratio_err"] = ErrorOf(cache.log_ppl_ratio);
  json["kld"] = KldJson(cache.prefill.kld);
  json["same_top1"] = MeanOf(cache.prefill.same_top1);
  json["same_top1_err"] = ErrorOf(cache.prefill.same_top1);
  json["top5_overlap"] = MeanOf(cache.prefill.top5_overlap);
  json["top5_overlap_err"] = ErrorOf(cache.prefill.top5_overlap);
  json["mean_delta_p"] = MeanOf(cache.prefill.mean_delta_p);
  json["mean_delta_p_err"] = ErrorOf(cache.prefill.mean_delta_p);
  json["kld_max_at"] =
      cache.worst ? Json{{"chunk", cache.worst->chunk}, {"position", cache.worst->position}, {"text", cache.worst->text}} : Json();
  json["kld_by_position"] = BucketsJson(cache.prefill.by_position);
  json["decode_kld"] = AgreementJson(cache.decode);
  json["decode4_kld"] = AgreementJson(cache.decode4);
  json["greedy"] = TrajectoriesJson(cache.trajectories);
  const CacheVerdict verdict = index < report.verdicts.size() ? report.verdicts[index] : CacheVerdict();
  json["versus_reference"] = VerdictJson(verdict.prefill);
  json["versus_reference"]["decode"] = VerdictJson(verdict.decode);
  json["tasks"] = TasksJson(cache.tasks);
  json["policies"] = PoliciesJson(cache);
  json["counters"] = cache.counters;
  json["warnings"] = Warnings(report.quality, report.options, cache);
  json["prefill_tps"] = speed != nullptr ? OrNull(speed->prefill_tps) : Json();
  json["decode_tps"] = speed != nullptr ? OrNull(speed->decode_tps) : Json();
  json["speed_by_depth"] = Json::array();
  for (size_t d = 0; d < report.depths.size(); ++d) {
    const Measurement& at = report.speed_at[d][index];
    json["speed_by_depth"].push_back({{"depth", report.depths[d]},
                                      {"prefill_tps", OrNull(at.prefill_tps)},
                                      {"decode_tps", OrNull(at.decode_tps)},
                                      {"decode_tps_min", OrNull(at.decode_tps_min)},
                                      {"decode_tps_max", OrNull(at.decode_tps_max)},
                                      {"peak_rss_bytes", OrNull(at.peak_rss_bytes)}});
  }
  if (!cache.refusal.empty()) json["refusal"] = cache.refusal;
  if (speed != nullptr && !speed->failure.empty()) json["speed_failure"] = speed->failure;
  // What `swivel compare` pairs across files.
  const bool measured = index > 0 && cache.prefill.series.size() > 0;
  json["kld_of_positions"] = measured ? Json(EncodeFloats(cache.prefill.series.kld)) : Json();
  json["decode_kld_of_positions"] = cache.decode.series.size() > 0 ? Json(EncodeFloats(cache.decode.series.kld)) : Json();
  return json;
}

Json SensitivityJson(const LayerSensitivity& sensitivity) {
  if (sensitivity.kv.empty()) return Json();
  Json layers = Json::array();
  for (size_t layer = 0; layer < sensitivity.k.size(); ++layer) {
    layers.push_back({{"layer", layer}, {"k", OrNull(sensitivity.k[layer])}, {"v", OrNull(sensitivity.v[layer])}});
  }
  return {{"kv", sensitivity.kv}, {"positions", sensitivity.positions}, {"layers", layers}};
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
    json["results"].push_back(ResultJson(report, i));
  }
  json["reference"] = report.reference;
  json["sensitivity"] = SensitivityJson(report.sensitivity);
  json["token_hash"] = report.quality.token_hash;
  json["runs"] = report.quality.caches.empty() ? std::vector<size_t>() : report.quality.caches[0].prefill.series.runs;
  json["score_from"] = report.options.first_scored();
  json["stride"] = report.options.step();
  json["ubatch"] = report.options.micro_batch;
  json["decode_tokens"] = report.options.decode_tokens;
  json["task_rounds"] = report.options.task_rounds;
  json["depth"] = report.speed.empty() ? Json() : Json(report.depth);
  json["rounds"] = report.speed.empty() ? Json() : Json(report.rounds);
  json["weights"] = report.weights;
  json["model_description"] = report.model_description;
  json["threads"] = report.options.threads;
  json["cpu"] = report.cpu;
  json["target"] = report.target;
  json["version"] = SWIVEL_VERSION;
  json["llama_cpp"] = report.llama_build;
  json["block_positions"] = BlockLength(report.quality.positions());
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
      "kv,bits_per_value,cache_bytes,full_cache_bytes,peak_rss_bytes,ppl,ppl_err,kld_mean,kld_mean_err,kld_median,kld_p99,kld_p999,kld_max,same_top1,"
      "same_top1_err,top5_overlap,mean_delta_p,versus_reference,decode_kld_mean,decode_kld_mean_err,decode_kld_p99,decode_same_top1,"
      "decode4_kld_mean,greedy_median_until,prefill_tps,decode_tps\n";
  for (const Json& row : json["results"]) {
    const Json& kld = row["kld"];
    const Json& decode = row["decode_kld"];
    text += fmt::format("\"{}\"", row["kv"].get<std::string>());
    for (const Json& cell : {row["bits_per_value"],
                             row["cache_bytes"],
                             row["full_cache_bytes"],
                             row["peak_rss_bytes"],
                             row["ppl"],
                             row["ppl_err"],
                             kld["mean"],
                             kld["mean_err"],
                             kld["median"],
                             kld["p99"],
                             kld["p999"],
                             kld["max"],
                             row["same_top1"],
                             row["same_top1_err"],
                             row["top5_overlap"],
                             row["mean_delta_p"],
                             row["versus_reference"]["verdict"],
                             decode["mean"],
                             decode["mean_err"],
                             decode["p99"],
                             decode["same_top1"],
                             row["decode4_kld"]["mean"],
                             row["greedy"].is_null() ? Json() : row["greedy"]["median_until"],
                             row["prefill_tps"],
                             row["decode_tps"]}) {
      text += ',';
      if (!cell.is_null()) text += cell.dump();
    }
    text += "\n";
  }
  return text;
}

}  // namespace swivel
