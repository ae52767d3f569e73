// Running tasks and scoring them; task_sheets.cc makes the prompts.
#include "eval/tasks.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <utility>

namespace swivel {
namespace {

// Fewer items that the model itself can do say nothing about a cache.
constexpr int kLeastPassed = 5;

// Each object that the questions begin, continued until it closes, breaks, or has had its tokens.
Status Continue(const Sheet& sheet, const TaskVocabulary& vocabulary, Speaker& speaker, Outcomes* outcomes) {
  const int length = static_cast<int>(sheet.prompt.size());
  bool fed = false;
  for (const Question& question : sheet.questions) {
    // Where tokens cannot be taken back, the prompt is read again.
    if (!fed || !speaker.Keep(length)) {
      speaker.Forget();
      if (const auto ignored = speaker.Feed(sheet.prompt, 1); !ignored.ok()) return ignored.status();
      fed = true;
    }
    std::string text;
    for (const Token token : question.ask) text += vocabulary.piece(token);
    text.erase(0, text.find('{') + 1);
    StatusOr<std::vector<Said>> next = speaker.Feed(question.ask, 1);
    for (int i = 0; next.ok() && !vocabulary.ends(next->back().likely) && i < kJsonTokens; ++i) {
      const Token token = next->back().likely;
      text += vocabulary.piece(token);
      if (FollowJson(text) != JsonEnd::kOpen) break;
      next = speaker.Feed(std::span<const Token>(&token, 1), 1);
    }
    if (!next.ok()) return next.status();
    outcomes->passed.push_back(FollowJson(text) == JsonEnd::kClosed ? 1 : 0);
    outcomes->value.push_back(0);
    outcomes->log_p.push_back(0);
  }
  return {};
}

Status Ask(Task task, const Sheet& sheet, Speaker& speaker, Outcomes* outcomes) {
  const float length = task == Task::kNeedle ? static_cast<float>(SheetTokens(sheet)) : 0;
  speaker.Forget();
  if (const auto ignored = speaker.Feed(sheet.prompt, 1); !ignored.ok()) return ignored.status();
  for (const Question& question : sheet.questions) {
    std::vector<Token> tokens = question.ask;
    tokens.insert(tokens.end(), question.answer.begin(), question.answer.end());
    // Behind the question, and behind each token of the answer; what comes after the last is not asked.
    StatusOr<std::vector<Said>> said = speaker.Feed(tokens, static_cast<int>(question.answer.size()) + 1);
    if (!said.ok()) return said.status();
    bool right = true;
    float log_p = 0;
    for (size_t i = 0; i < question.answer.size(); ++i) {
      right = right && (*said)[i].likely == question.answer[i];
      log_p += (*said)[i].log_p;
    }
    outcomes->passed.push_back(right ? 1 : 0);
    outcomes->value.push_back(length);
    outcomes->log_p.push_back(log_p);
  }
  return {};
}

}  // namespace

std::string TaskName(Task task) {
  switch (task) {
    case Task::kCopy:
      return "copy";
    case Task::kNeedle:
      return "needle";
    case Task::kJson:
      return "json";
    case Task::kRepeat:
      break;
  }
  return "repeat";
}

StatusOr<std::vector<Task>> ParseTasks(std::string_view text) {
  std::vector<Task> tasks;
  if (text == "none" || text.empty()) return tasks;
  if (text == "all") return std::vector<Task>(std::begin(kAllTasks), std::end(kAllTasks));
  while (!text.empty()) {
    const std::string_view name = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), name.size() + 1));
    const auto found = std::find_if(std::begin(kAllTasks), std::end(kAllTasks), [&](Task task) { return TaskName(task) == name; });
    if (found == std::end(kAllTasks)) {
      return Status::Invalid(fmt::format("'{}' is not a task; --tasks takes all, none, or a list of copy, needle, json, repeat", name));
    }
    if (std::find(tasks.begin(), tasks.end(), *found) == tasks.end()) tasks.push_back(*found);
  }
  return tasks;
}

int SheetTokens(const Sheet& sheet) {
  size_t tokens = sheet.prompt.size();
  for (const Question& question : sheet.questions) tokens += question.ask.size() + question.answer.size();
  return static_cast<int>(tokens);
}

StatusOr<Outcomes> RunTask(Task task, const std::vector<Sheet>& sheets, const TaskVocabulary& vocabulary, Speaker& speaker,
                           const std::function<void(int)>& progress) {
  Outcomes outcomes;
  for (const Sheet& sheet : sheets) {
    Status status = task == Task::kJson ? Continue(sheet, vocabulary, speaker, &outcomes) : Ask(task, sheet, speaker, &outcomes);
    if (!status.ok()) return status;
    progress(SheetTokens(sheet));
  }
  return outcomes;
}

JsonEnd FollowJson(std::string_view text) {
  std::string open = "{";  // the object that the prompt began
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      if (c == '\n') return JsonEnd::kBroken;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' || c == '[') open += c;
    if (c != '}' && c != ']') continue;
    if (open.back() != (c == '}' ? '{' : '[')) return JsonEnd::kBroken;
    open.pop_back();
    if (open.empty()) return JsonEnd::kClosed;
  }
  return JsonEnd::kOpen;
}

double RepeatedGrams(std::span<const Token> tokens, int n) {
  const size_t length = static_cast<size_t>(n);
  if (tokens.size() < length) return 0;
  std::set<std::vector<Token>> seen;
  size_t repeated = 0;
  const size_t count = tokens.size() - length + 1;
  for (size_t i = 0; i < count; ++i) {
    repeated += seen.emplace(tokens.begin() + static_cast<long>(i), tokens.begin() + static_cast<long>(i + length)).second ? 0 : 1;
  }
  return static_cast<double>(repeated) / static_cast<double>(count);
}

namespace {

int ItemsOfSheet(Task task) { return task == Task::kCopy ? kCopyAsked : kNeedleDepths; }

std::optional<MeanError> AnswerLogP(Task task, const Outcomes& outcomes, const Outcomes& base) {
  const size_t items = base.passed.size(), of_sheet = static_cast<size_t>(ItemsOfSheet(task));
  if (outcomes.log_p.size() != items || base.log_p.size() != items) return std::nullopt;
  std::vector<double> sums, counts;  // of sheets
  for (size_t i = 0; i < items; ++i) {
    if (i % of_sheet == 0) {
      sums.push_back(0);
      counts.push_back(0);
    }
    if (base.passed[i] == 0) continue;
    sums.back() += double{outcomes.log_p[i]} - base.log_p[i];
    counts.back() += 1;
  }
  const double count = std::accumulate(counts.begin(), counts.end(), 0.0);
  if (count == 0) return std::nullopt;
  MeanError gained{std::accumulate(sums.begin(), sums.end(), 0.0) / count, std::nullopt};
  const double sheets = static_cast<double>(sums.size());
  if (sums.size() < 4) return gained;
  // Of a ratio of sums over clusters (Cochran 1977, equation 2.45 without the correction for a finite population).
  double squares = 0;
  for (size_t s = 0; s < sums.size(); ++s) squares += std::pow(sums[s] - gained.mean * counts[s], 2);
  gained.error = std::sqrt(squares * sheets / (sheets - 1)) / count;
  return gained;
}

}  // namespace

TaskScore ScoreTask(Task task, const Outcomes& outcomes, const Outcomes& base) {
  TaskScore score;
  score.task = task;
  score.items = static_cast<int>(base.passed.size());
  if (base.passed.empty() || outcomes.passed.size() != base.passed.size()) {
    score.not_measured = "no items";
    return score;
  }
  for (size_t i = 0; i < base.passed.size(); ++i) {
    // Of repeated text the base's own rate is the measure, whatever it is.
    const bool repeat = task == Task::kRepeat;
    const bool base_passed = repeat || base.passed[i] > 0;
    const bool passed = repeat ? outcomes.value[i] <= double{base.value[i]} + kRepeatSlack : outcomes.passed[i] > 0;
    score.base_passed += base_passed ? 1 : 0;
    score.passed += passed ? 1 : 0;
    score.kept += passed && base_passed ? 1 : 0;
    score.grid.push_back((base_passed ? 1 : 0) + (passed ? 2 : 0));
  }
  if (task == Task::kNeedle) {
    const size_t rows = std::min(base.value.size() / kNeedleDepths, static_cast<size_t>(kNeedleLengths));
    for (size_t i = 0; i < rows; ++i) score.lengths.push_back(static_cast<int>(base.value[i * kNeedleDepths]));
  }
  if (task == Task::kCopy || task == Task::kNeedle) score.answer_log_p = AnswerLogP(task, outcomes, base);
  const double count = static_cast<double>(base.value.size());
  score.mean_value = std::accumulate(outcomes.value.begin(), outcomes.value.end(), 0.0) / count;
  score.base_mean_value = std::accumulate(base.value.begin(), base.value.end(), 0.0) / count;
  score.interval = WilsonInterval(score.kept, score.base_passed);
  if (score.base_passed < kLeastPassed) {
    score.not_measured = task == Task::kRepeat ? fmt::format("{} texts are too few, --greedy {} writes enough", score.items, kLeastPassed)
                                               : fmt::format("the model itself does {} of {} with f16", score.base_passed, score.items);
  }
  return score;
}

Record ToRecord(const Outcomes& outcomes) {
  Record record;
  record.columns["passed"] = outcomes.passed;
  record.columns["value"] = outcomes.value;
  record.columns["log_p"] = outcomes.log_p;
  return record;
}

Outcomes ToOutcomes(const Record& record) {
  Outcomes outcomes;
  const auto passed = record.columns.find("passed"), value = record.columns.find("value"), log_p = record.columns.find("log_p");
  for (const auto& column : {passed, value, log_p}) {
    if (column == record.columns.end() || column->second.size() != passed->second.size()) return outcomes;
  }
  outcomes.passed = passed->second;
  outcomes.value = value->second;
  outcomes.log_p = log_p->second;
  return outcomes;
}

}  // namespace swivel
