#include "tune/report.h"

#include <cmath>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "eval/text_table.h"

namespace swivel {
namespace {

using Json = nlohmann::ordered_json;

std::string Kld(const std::optional<MeanError>& kld) {
  if (!kld) return "-";
  if (!std::isfinite(kld->mean)) return "NaN";
  const std::string mean = KldText(kld->mean);
  return kld->error && kld->mean > 0 ? fmt::format("{} ±{:.0f} %", mean, 100 * *kld->error / kld->mean) : mean;
}

std::string Ratio(const PairedDifference& difference) {
  if (difference.ratio <= 0) return "-";
  const char* verdict = difference.verdict == Verdict::kBetter ? " better" : difference.verdict == Verdict::kWorse ? " worse" : "";
  return fmt::format("{:.2f}{}", difference.ratio, verdict);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(); }
Json MeanJson(const std::optional<MeanError>& mean) { return mean ? Number(mean->mean) : Json(); }
Json ErrorJson(const std::optional<MeanError>& mean) { return mean && mean->error ? Number(*mean->error) : Json(); }

Json PairedJson(const PairedDifference& difference) {
  if (difference.positions == 0) return {};
  return {{"verdict", VerdictName(difference.verdict)},
          {"ratio", difference.ratio > 0 ? Number(difference.ratio) : Json()},
          {"difference", Number(difference.difference)},
          {"low", Number(difference.low)},
          {"high", Number(difference.high)}};
}

std::string CsvField(const std::string& text) {
  if (text.find_first_of(",\"\n") == std::string::npos) return text;
  std::string quoted = "\"";
  for (char c : text) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + "\"";
}

std::string CsvNumber(const Json& number) { return number.is_null() ? "" : number.dump(); }

}  // namespace

TuneFigures FiguresOf(const TuneReport& report, const TuneRow& row) {
  TuneFigures figures;
  const TuneProblem& problem = report.problem;
  while (figures.chunks < problem.search_chunks && report.results.Find(row.spec, figures.chunks) != nullptr) ++figures.chunks;
  if (figures.chunks > 0) figures.search = report.results.Mean(row.spec, 0, figures.chunks - 1);
  figures.confirm = report.results.Mean(row.spec, problem.search_chunks, problem.chunks - 1);
  const std::string& preset = report.outcome.preset_spec;
  if (preset.empty() || preset == row.spec) return figures;
  int first = problem.search_chunks, last = problem.chunks - 1;
  if (!figures.confirm || !report.results.Mean(preset, first, last)) {
    first = 0;
    last = figures.chunks - 1;
  }
  const auto [values, runs] = report.results.Collect(row.spec, first, last);
  figures.against_preset = ComparePaired(values, report.results.Collect(preset, first, last).first, runs);
  return figures;
}

std::string TuneMarkdown(const TuneReport& report) {
  std::vector<TextRow> table = {{"tried", "stage", "bits", "MiB", "KLD, search", "KLD, confirm", "x preset"}};
  for (const TuneRow& row : report.rows) {
    const TuneFigures figures = FiguresOf(report, row);
    const std::string mark = row.spec == report.outcome.spec ? " **<**" : "";
    table.push_back({row.change + mark, row.stage, fmt::format("{:.3f}", row.cost.bits),
                     fmt::format("{:.2f}", static_cast<double>(row.cost.bytes) / 1048576.0), Kld(figures.search), Kld(figures.confirm),
                     row.spec == report.outcome.preset_spec ? "1" : Ratio(figures.against_preset)});
  }
  const TuneOutcome& outcome = report.outcome;
  std::string text = TextTable(table);
  text += fmt::format("\nLimit: {}. MiB: full cache of {} tokens, exact rows in. KLD in nats; search: chunks of {} tokens, 1 to {}; confirm: {} to {}.\n",
                      report.limit, report.context, report.chunk_tokens, report.problem.search_chunks, report.problem.search_chunks + 1,
                      report.problem.chunks);
  text += fmt::format("\nChosen: `{}`\n{}{}.\n", outcome.spec, outcome.keeps_limit ? "" : "**The limit is not kept.** ", outcome.reason);
  if (outcome.kld) text += fmt::format("Expected KLD {}", Kld(outcome.kld));
  if (outcome.kld && outcome.preset_kld && !outcome.is_preset) text += fmt::format(", preset {} {}", outcome.preset, Kld(outcome.preset_kld));
  return text + (outcome.kld ? ".\n" : "");
}

std::string TuneCsv(const TuneReport& report) {
  std::string text = "stage,change,spec,bits,bytes,fits,search_chunks,kld,kld_err,confirm_kld,confirm_kld_err,ratio_to_preset,verdict,chosen\n";
  for (const TuneRow& row : report.rows) {
    const TuneFigures figures = FiguresOf(report, row);
    const PairedDifference& paired = figures.against_preset;
    text += fmt::format("{},{},{},{},{},{},{},{},{},{},{},{},{},{}\n", CsvField(row.stage), CsvField(row.change), CsvField(row.spec), row.cost.bits,
                        row.cost.bytes, row.fits ? 1 : 0, figures.chunks, CsvNumber(MeanJson(figures.search)), CsvNumber(ErrorJson(figures.search)),
                        CsvNumber(MeanJson(figures.confirm)), CsvNumber(ErrorJson(figures.confirm)),
                        paired.ratio > 0 ? fmt::format("{}", paired.ratio) : "", paired.positions > 0 ? VerdictName(paired.verdict) : "",
                        row.spec == report.outcome.spec ? 1 : 0);
  }
  return text;
}

std::string TuneJson(const TuneReport& report) {
  const TuneOutcome& outcome = report.outcome;
  Json tried = Json::array();
  for (const TuneRow& row : report.rows) {
    const TuneFigures figures = FiguresOf(report, row);
    tried.push_back({{"stage", row.stage},
                     {"change", row.change},
                     {"spec", row.spec},
                     {"bits_per_value", row.cost.bits},
                     {"cache_bytes", row.cost.bytes},
                     {"fits", row.fits},
                     {"search_chunks", figures.chunks},
                     {"kld", MeanJson(figures.search)},
                     {"kld_err", ErrorJson(figures.search)},
                     {"confirm_kld", MeanJson(figures.confirm)},
                     {"confirm_kld_err", ErrorJson(figures.confirm)},
                     {"versus_preset", PairedJson(figures.against_preset)}});
  }
  const TuneCost cost = CostOf(ParseSpec(outcome.spec).value(), report.problem.layers);
  const Json json = {{"model", report.model},
                     {"text", report.text},
                     {"weights", report.weights},
                     {"limit", report.limit},
                     {"context", report.context},
                     {"chunk_tokens", report.chunk_tokens},
                     {"chunks", report.problem.chunks},
                     {"search_chunks", report.problem.search_chunks},
                     {"output", report.output},
                     {"command", report.command},
                     {"chosen",
                      {{"spec", outcome.spec},
                       {"bits_per_value", cost.bits},
                       {"cache_bytes", cost.bytes},
                       {"kld", MeanJson(outcome.kld)},
                       {"kld_err", ErrorJson(outcome.kld)},
                       {"is_preset", outcome.is_preset},
                       {"keeps_limit", outcome.keeps_limit},
                       {"reason", outcome.reason},
                       {"preset", outcome.preset.empty() ? Json() : Json(outcome.preset)},
                       {"preset_kld", MeanJson(outcome.preset_kld)},
                       {"versus_preset", outcome.is_preset ? Json() : PairedJson(outcome.against_preset)}}},
                     {"tried", std::move(tried)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace swivel
