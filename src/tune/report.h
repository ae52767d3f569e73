// The table of a finished search: for people (Markdown), spreadsheets (CSV) and programs (JSON). What was not measured is "-", empty or null.
#ifndef SWIVEL_TUNE_REPORT_H_
#define SWIVEL_TUNE_REPORT_H_

#include <string>
#include <vector>

#include "tune/search.h"

namespace swivel {

struct TuneReport {
  std::string model, text, weights, limit, output, command;  // limit: "3.25 bits"
  int64_t context = 0;                                       // for which bytes are counted
  int chunk_tokens = 0;
  TuneProblem problem;
  TuneResults results;
  std::vector<TuneRow> rows;
  TuneOutcome outcome;
};

// A line of the table. The KLD is that of all chunks which the spec shares with the preset (or has, without one), and is compared there.
struct TuneFigures {
  int chunks = 0;  // the first so many
  std::optional<MeanError> search;
  std::optional<MeanError> confirm;
  PairedDifference against_preset;  // over search or, where it was measured, confirm
};
TuneFigures FiguresOf(const TuneReport& report, const TuneRow& row);

std::string TuneMarkdown(const TuneReport& report);
std::string TuneCsv(const TuneReport& report);
std::string TuneJson(const TuneReport& report);

}  // namespace swivel

#endif  // SWIVEL_TUNE_REPORT_H_
