#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/version.h"
#include "eval/report_html.h"
#include "eval/svg.h"
#include "eval/text_table.h"

namespace swivel {
namespace {

constexpr const char* kNone = "–";

std::string Dash(std::string text) { return text == "-" ? kNone : text; }

// Column headings with what they mean, for pointers and screen readers.
struct Heading {
  const char* text;
  const char* title;
};

std::string Table(const std::string& label, const std::vector<Heading>& headings, const std::string& rows) {
  std::string html =
      fmt::format("<div class=\"scroll\" tabindex=\"0\" role=\"region\" aria-label=\"{}\"><table><thead><tr>", EscapeHtml(label));
  for (const Heading& heading : headings)
    html += fmt::format("<th scope=\"col\" title=\"{}\">{}</th>", EscapeHtml(heading.title), EscapeHtml(heading.text));
  return html + "</tr></thead><tbody>\n" + rows + "</tbody></table></div>\n";
}

std::string RowStart(const CacheQuality& cache) {
  return fmt::format("<tr{}><th scope=\"row\">{}</th>", cache.cache.stock ? " class=\"stock\"" : "", EscapeHtml(cache.cache.name));
}

std::string Cell(const std::string& text) { return "<td>" + EscapeHtml(Dash(text)) + "</td>"; }

std::string VerdictCell(const EvalReport& report, size_t i) {
  if (report.quality.caches[i].cache.name == report.reference) return Cell("reference");
  if (i >= report.verdicts.size()) return Cell("-");
  const PairedDifference& difference = report.verdicts[i].prefill;
  const char* style = difference.verdict == Verdict::kBetter  ? " class=\"good\""
                      : difference.verdict == Verdict::kWorse ? " class=\"bad\""
                                                              : "";
  if (difference.verdict == Verdict::kNotMeasured) return Cell(i == 0 ? "-" : "not measured");
  const std::string word = difference.verdict == Verdict::kNotDistinguishable ? "can’t tell" : VerdictName(difference.verdict);
  return fmt::format("<td{} title=\"difference {:.3g}, 99 % interval {:.3g} to {:.3g}\">{}{}</td>", style, difference.difference,
                     difference.low, difference.high, word, difference.ratio > 0 ? fmt::format(", ×{:.3g}", difference.ratio) : "");
}

}  // namespace

std::string CostTableHtml(const EvalReport& report) {
  const std::string against = "against " + report.reference;
  const std::vector<Heading> headings = {
      {"cache", ""},
      {"bits", "bits a packed value, scales and padding counted"},
      {"MiB", "the cache when full, rows that are kept exact included"},
      {"KLD", "KL divergence from f16, nats a token, mean ± standard error"},
      {against.c_str(), "paired by token, 99 % interval; ×: ratio of the KLDs"},
      {"same token %", "positions whose most likely token is f16’s"},
      {"KLD, decode", "one token at a time: other kernels"},
      {"PPL", "perplexity"},
      {"prompt t/s", "tokens a second"},
      {"gen. t/s", "tokens a second"},
      {"peak MiB", "of the process, weights included"},
  };
  std::string rows;
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    if (!cache.refusal.empty()) {
      rows += RowStart(cache) + fmt::format("<td class=\"why\" colspan=\"10\">not measured: {}</td></tr>\n", EscapeHtml(cache.refusal));
      continue;
    }
    constexpr double kMiB = 1 << 20;
    const Measurement speed = i < report.speed.size() ? report.speed[i] : Measurement();
    rows += RowStart(cache) + Cell(OrDash(cache.use.bits_per_value, "{:.4g}")) + Cell(OrDash(cache.use.full_bytes, "{:.1f}", kMiB)) +
            Cell(i == 0 ? "base" : KldWithErrorText(cache.prefill.kld)) + VerdictCell(report, i) +
            Cell(PercentText(cache.prefill.same_top1)) + Cell(KldWithErrorText(cache.decode.kld)) +
            Cell(cache.perplexity ? NumberText(cache.perplexity->mean, "{:.4g}") : "-") + Cell(OrDash(speed.prefill_tps, "{:.4g}")) +
            Cell(OrDash(speed.decode_tps, "{:.3g}")) + Cell(OrDash(speed.peak_rss_bytes, "{:.0f}", kMiB)) + "</tr>\n";
  }
  return Table("Cost of all caches", headings, rows);
}

std::string TailTableHtml(const EvalReport& report) {
  const std::vector<Heading> headings = {
      {"cache", ""},
      {"median", "KLD of the typical token"},
      {"90 %", ""},
      {"99 %", ""},
      {"99.9 %", ""},
      {"largest", ""},
      {"at", "chunk:position, and the token that stood next"},
      {"top-5 shared %", "of the five most likely tokens"},
      {"Δp %", "change of the probability of the text’s next token"},
      {"KLD, 4 at a time", "decode path in batches of 4"},
      {"greedy until", "tokens until the text that it writes leaves f16’s: median, and how many stayed with it to the end"}};
  std::string rows;
  for (size_t i = 1; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    if (!cache.refusal.empty()) continue;
    const Summary& kld = cache.prefill.kld;
    rows += RowStart(cache);
    for (const std::optional<double>& value : {kld.median, kld.p90, kld.p99, kld.p999, kld.max}) rows += Cell(KldText(value));
    rows += Cell(cache.worst ? fmt::format("{}:{} “{}”", cache.worst->chunk + 1, cache.worst->position, cache.worst->text) : "-");
    rows += Cell(PercentText(cache.prefill.top5_overlap)) + Cell(PercentText(cache.prefill.mean_delta_p, "{:.2f}")) +
            Cell(KldText(cache.decode4.kld.mean));
    rows += Cell(cache.trajectories ? fmt::format("{:g} of {} ({} of {} to the end)", cache.trajectories->median_until,
                                                  cache.trajectories->tokens, cache.trajectories->never, cache.trajectories->count)
                                    : "-");
    rows += "</tr>\n";
  }
  return Table("Tails, other paths, greedy text", headings, rows);
}

std::string TasksHtml(const EvalReport& report) {
  const std::vector<TaskScore>& asked = report.quality.caches[0].tasks;
  if (asked.empty()) return "<p>Not measured; <code>--tasks all</code> does.</p>\n";
  std::vector<std::string> names;
  std::vector<Heading> headings = {{"cache", ""}};
  for (const TaskScore& score : asked) names.push_back(TaskName(score.task));
  for (const std::string& name : names)
    headings.push_back({name.c_str(), "done of those that f16 does; in parentheses the 95 % interval of the share"});
  std::string rows, notes;
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    if (cache.tasks.size() != asked.size()) continue;
    rows += RowStart(cache);
    for (const TaskScore& score : cache.tasks) {
      if (!score.not_measured.empty()) {
        if (i == 0) notes += fmt::format("<p>{}: not measured, {}.</p>\n", TaskName(score.task), EscapeHtml(score.not_measured));
        rows += Cell("not measured");
        continue;
      }
      const std::string repeated = score.task == Task::kRepeat ? fmt::format("; repeats {:.0f} %", 100 * score.mean_value)
                                   : score.answer_log_p      ? fmt::format("; log p {}", DifferenceText(*score.answer_log_p))
                                                             : "";
      rows += i == 0 ? Cell(fmt::format("{} of {}{}", score.base_passed, score.items, repeated))
                     : Cell(fmt::format("{} of {} ({:.2f}–{:.2f}), {} others{}", score.kept, score.base_passed, score.interval.low,
                                        score.interval.high, score.passed - score.kept, repeated));
    }
    rows += "</tr>\n";
  }
  return Table("Tasks", headings, rows) + notes +
         fmt::format(
             "<p>Others: what f16 does not do and this cache does; where f16 is unsure of an item, both are luck. copy: {} keys with numbers in each of {} lists, {} asked for. needle: {} sentences at {} depths of {} lengths, among decoys. json: closes the "
             "braces that it opened. repeat: does not repeat more of itself than f16’s text does. log p: what the log-probability of the right "
             "answers that f16 gives gains (+) or loses, in nats, ± one standard error.{}</p>\n",
             kCopyKeys, kCopySheets, kCopyAsked * kCopySheets, kNeedleDepths * kNeedleLengths, kNeedleDepths, kNeedleLengths,
             report.options.task_rounds > 1 ? fmt::format(" {} rounds of each.", report.options.task_rounds) : "");
}

std::string ProvenanceHtml(const EvalReport& report) {
  const QualityOptions& options = report.options;
  std::string html = "<dl>\n";
  auto add = [&](const std::string& name, const std::string& text) {
    html += fmt::format("<dt>{}</dt><dd>{}</dd>\n", EscapeHtml(name), EscapeHtml(text));
  };
  add("Command", report.command);
  add("Model", fmt::format("{} ({}, weights {})", report.model, report.model_description, report.weights));
  add("Text",
      fmt::format("{}: {} chunks of {} tokens, {} apart, scored from position {}; token hash {}", report.text, report.quality.chunks,
                  options.context_tokens, options.step(), options.first_scored(), report.quality.token_hash));
  add("Paths", fmt::format("prompts in micro-batches of {}; {} tokens decoded one and four at a time; {} greedy texts of {} tokens",
                           options.micro_batch, options.decode_tokens, options.trajectories, options.trajectory_tokens));
  add("Speed", report.speed.empty() ? std::string("not measured")
                                    : fmt::format("depth {}, {} round(s), a process for each cache", report.depth, report.rounds));
  add("Machine", fmt::format("{}, {} threads, target {}", report.cpu, options.threads, report.target));
  add("Versions", fmt::format("swivel {}, llama.cpp {}", SWIVEL_VERSION, report.llama_build));
  if (report.sensitivity.kv.empty()) add("Not measured", "sensitivity of single layers");
  for (const CacheQuality& cache : report.quality.caches) {
    for (const PolicyUse& policy : PoliciesOf(cache)) {
      if (policy.acted)
        add(cache.cache.name, fmt::format("{} was at work: {} cells or events, all layers together", policy.key, *policy.acted));
    }
  }
  return html + "</dl>\n<p>docs/evaluation.md of Swivel defines every figure, and says what it cannot show.</p>\n";
}

}  // namespace swivel
