// An evaluation as a table for people (Markdown), a table for spreadsheets (CSV) and a record for programs (JSON).
//
// What was not measured is "-" in Markdown, empty in CSV and null in JSON, never 0.
#ifndef SWIVEL_EVAL_REPORT_H_
#define SWIVEL_EVAL_REPORT_H_

#include <string>
#include <vector>

#include "eval/checks.h"
#include "eval/measure.h"
#include "eval/quality.h"
#include "eval/sensitivity.h"

namespace swivel {

struct EvalReport {
  std::string model;  // path as given
  std::string model_description;
  std::string text;     // path as given
  std::string weights;  // "as-is", "f16" or "f32"
  QualityOptions options;
  QualityReport quality;
  std::vector<Measurement> speed;                  // a measurement for each of quality.caches at the first depth, or empty
  std::vector<int> depths;                         // all that were measured
  std::vector<std::vector<Measurement>> speed_at;  // one a depth
  std::string reference;                           // the cache that the others are judged against
  std::vector<CacheVerdict> verdicts;              // one for each of quality.caches, by SetVerdicts
  LayerSensitivity sensitivity;                    // empty when it was not asked for
  int depth = 0;
  int rounds = 0;
  std::string cpu, target, llama_build, command;
};

// Fills `verdicts`; a reference that is no row (or was refused) leaves them "not measured".
void SetVerdicts(EvalReport* report);

// Three tables of at most 120 columns: cost, verdicts and tails, greedy text and tasks. Cache names longer than 20 characters become #1,
// #2, … and are spelled out below the first table.
std::string ReportMarkdown(const EvalReport& report);
std::string ReportCsv(const EvalReport& report);
// docs/evaluation.md lists the keys.
std::string ReportJson(const EvalReport& report);

// The second table of ReportMarkdown: what the verdict is, the tails, where the worst token is. `names` are those of the first table.
std::string DetailsMarkdown(const EvalReport& report, const std::vector<std::string>& names);
// The layers that cost most, worst first; empty when that was not measured.
std::string SensitivityText(const LayerSensitivity& sensitivity);
// Warnings and policies, a line each.
std::string ChecksText(const EvalReport& report);

}  // namespace swivel

#endif  // SWIVEL_EVAL_REPORT_H_
