// Tables and numbers for terminals, in Markdown. What was not measured is "-".
#ifndef SWIVEL_EVAL_TEXT_TABLE_H_
#define SWIVEL_EVAL_TEXT_TABLE_H_

#include <fmt/format.h>

#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "eval/metrics.h"

namespace swivel {

using TextRow = std::vector<std::string>;

// rows[0] is the heading; all have its length. The first column is aligned left, the others right.
std::string TextTable(const std::vector<TextRow>& rows);

// "NaN" instead of what fmt makes of it.
std::string NumberText(double value, const char* format);

template <class T>
std::string OrDash(const std::optional<T>& value, const char* format, double unit = 1) {
  return value ? NumberText(static_cast<double>(*value) / unit, format) : "-";
}

// Three significant digits; exponents without padding.
std::string KldText(const std::optional<double>& value);
// With its error as a share of the mean: comparable down a column whose values span decades.
std::string KldWithErrorText(const Summary& kld);
// "98.7 ±0.2", of a share in percent.
std::string PercentText(const std::optional<MeanError>& share, const char* format = "{:.1f}");
// "-0.042 ±0.007", of a difference.
std::string DifferenceText(const MeanError& difference);

}  // namespace swivel

#endif  // SWIVEL_EVAL_TEXT_TABLE_H_
