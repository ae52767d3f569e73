// The second table of an evaluation (verdicts, tails, greedy text) and the lines of its checks.
#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/report.h"
#include "eval/text_table.h"

namespace swivel {
namespace {

std::string VerdictCell(const EvalReport& report, size_t i) {
  if (report.quality.caches[i].cache.name == report.reference) return "reference";
  if (i >= report.verdicts.size() || report.verdicts[i].prefill.verdict == Verdict::kNotMeasured) return "-";
  const PairedDifference& difference = report.verdicts[i].prefill;
  // The two words that are read at a glance are short; the third has to be understood.
  const std::string word = difference.verdict == Verdict::kNotDistinguishable ? "can't tell" : VerdictName(difference.verdict);
  return difference.ratio > 0 ? fmt::format("{}, x{:.3g}", word, difference.ratio) : word;
}

// "3:1719", chunk and position.
std::string WorstCell(const CacheQuality& cache) {
  if (!cache.worst) return "-";
  return fmt::format("{} at {}:{}", KldText(cache.prefill.kld.max), cache.worst->chunk + 1, cache.worst->position);
}

std::string UntilCell(const CacheQuality& cache) {
  if (!cache.trajectories) return "-";
  return fmt::format("{:g} ({} of {})", cache.trajectories->median_until, cache.trajectories->never, cache.trajectories->count);
}

// "31/32 (0.84-0.99)"; what the cache kept of what f16 can do.
std::string TaskCell(const TaskScore& score) {
  if (!score.not_measured.empty()) return "-";
  return fmt::format("{}/{} ({:.2f}-{:.2f}) +{}", score.kept, score.base_passed, score.interval.low, score.interval.high, score.passed - score.kept);
}

std::string TasksMarkdown(const EvalReport& report, const std::vector<std::string>& names) {
  const std::vector<TaskScore>& asked = report.quality.caches[0].tasks;
  if (asked.empty()) return "Tasks (copying, needles, JSON, repetition) were not measured; --tasks all does.\n\n";
  std::vector<TextRow> rows(1, TextRow{"kept of f16"});
  std::string notes;
  for (const TaskScore& score : asked) {
    rows[0].push_back(TaskName(score.task));
    if (!score.not_measured.empty()) notes += fmt::format("{} is not measured: {}.\n", TaskName(score.task), score.not_measured);
    if (score.answer_log_p) rows[0].push_back("log p");
    if (score.task == Task::kRepeat && score.not_measured.empty()) rows[0].push_back("repeated");
  }
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    const std::vector<TaskScore>& tasks = report.quality.caches[i].tasks;
    if (tasks.size() != asked.size()) continue;
    TextRow row = {names[i]};
    for (const TaskScore& score : tasks) {
      row.push_back(i == 0 && score.not_measured.empty() ? fmt::format("{} of {}", score.base_passed, score.items) : TaskCell(score));
      if (score.answer_log_p) row.push_back(i == 0 ? "-" : DifferenceText(*score.answer_log_p));
      if (score.task == Task::kRepeat && score.not_measured.empty()) row.push_back(fmt::format("{:.2f}", score.mean_value));
    }
    rows.push_back(std::move(row));
  }
  return TextTable(rows) + "\n" + notes +
         fmt::format(
             "Tasks: items that a cache does of those that f16 does, in parentheses the 95 % interval of that share (Wilson), + what it does\n"
             "and f16 does not. copy: {} keys with numbers in each of {} lists, {} asked for; needle: {} sentences at {} depths of {} lengths;\n"
             "json: closes the braces it opened; repeat: texts that do not repeat more of themselves than f16's (4-grams, + {}); repeated:\n"
             "mean share of repeated 4-grams. log p: what the log-probability of the right answers that f16 gives gains (+) or loses, in nats,\n"
             "± one standard error.{}\n\n",
             kCopyKeys, kCopySheets, kCopyAsked * kCopySheets, kNeedleDepths * kNeedleLengths, kNeedleDepths, kNeedleLengths, kRepeatSlack,
             report.options.task_rounds > 1 ? fmt::format(" {} rounds of each.", report.options.task_rounds) : "");
}

}  // namespace

std::string DetailsMarkdown(const EvalReport& report, const std::vector<std::string>& names) {
  std::vector<TextRow> rows = {
      {"kv", "KLD vs " + report.reference, "median", "99.9 %", "max at", "top-5 %", "delta-p %", "4 at a time", "greedy until"}};
  for (size_t i = 1; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    rows.push_back({names[i], VerdictCell(report, i), KldText(cache.prefill.kld.median), KldText(cache.prefill.kld.p999), WorstCell(cache),
                    PercentText(cache.prefill.top5_overlap), PercentText(cache.prefill.mean_delta_p, "{:.2f}"),
                    KldText(cache.decode4.kld.mean), UntilCell(cache)});
  }
  if (rows.size() == 1) return "";
  return TextTable(rows) +
         fmt::format(
             "\nvs {}: paired by token, 99 % interval of a block bootstrap; x: ratio of the KLDs; \"can't tell\": this text does not say\n"
             "which is nearer to f16. max at chunk:position; top-5: shared part of the five most likely tokens; delta-p: change of the\n"
             "probability of the text's next token; 4 at a time: KLD, teacher-forced in batches of 4; greedy until: tokens until the text "
             "that\n"
             "the cache writes leaves that of f16, median (how many of the texts stayed the same to the end, {} tokens).\n\n",
             report.reference, report.options.trajectory_tokens) +
         TasksMarkdown(report, names);
}

std::string SensitivityText(const LayerSensitivity& sensitivity) {
  if (sensitivity.kv.empty()) return "";
  constexpr size_t kShown = 8;
  std::vector<std::pair<double, std::string>> worst;
  double sum = 0;
  for (const auto& [side, row] : {std::pair('K', &sensitivity.k), std::pair('V', &sensitivity.v)}) {
    for (size_t layer = 0; layer < row->size(); ++layer) {
      const std::optional<double>& kld = (*row)[layer];
      worst.emplace_back(kld.value_or(std::numeric_limits<double>::infinity()), fmt::format("{}{}", side, layer));
      sum += kld.value_or(0);
    }
  }
  std::sort(worst.begin(), worst.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::string text = fmt::format("{} in the keys or values of one layer alone, {} positions, the most costly of {} (sum of all {}):\n",
                                 sensitivity.kv, sensitivity.positions, worst.size(), KldText(sum));
  for (size_t i = 0; i < std::min(kShown, worst.size()); ++i) text += fmt::format("{}{} {}", i == 0 ? "" : ", ", worst[i].second, KldText(worst[i].first));
  return text + ".\n\n";
}

std::string ChecksText(const EvalReport& report) {
  std::string text;
  for (const CacheQuality& cache : report.quality.caches) {
    for (const std::string& warning : Warnings(report.quality, report.options, cache)) {
      text += fmt::format("Warning: {}: {}.\n", cache.cache.name, warning);
    }
    for (const PolicyUse& policy : PoliciesOf(cache)) {
      text +=
          policy.acted
              ? fmt::format("{}: {} was at work: {} cells or events, all layers together.\n", cache.cache.name, policy.key, *policy.acted)
              : fmt::format("{}: how often {} acted is not measured: the plugin does not count it.\n", cache.cache.name, policy.key);
    }
  }
  return text;
}

}  // namespace swivel
