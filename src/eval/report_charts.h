// The drawings of an evaluation's page, each a whole <svg>. Caches have the same colour and shape in all of them.
#ifndef SWIVEL_EVAL_REPORT_CHARTS_H_
#define SWIVEL_EVAL_REPORT_CHARTS_H_

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "eval/report.h"

namespace swivel {

// Empty strings where nothing was measured.

// Bits a value against KLD, logarithmic; llama.cpp's own caches are squares.
std::string RateChart(const EvalReport& report);
// KLD over the depth in the context, a line a cache.
std::string PositionChart(const EvalReport& report);
// Generation over the tokens in the cache, where several depths were measured.
std::string SpeedChart(const EvalReport& report);
// How many tokens have which divergence, a row a cache, both scales logarithmic so that single tokens of the tail are seen.
std::string HistogramChart(const EvalReport& report);
// One bar a cache; `value` is absent for what was not measured.
std::string BarChart(const EvalReport& report, const std::string& unit, const std::function<std::optional<double>(size_t)>& value);
// Found and lost needles by depth and length, a grid a cache.
std::string NeedleChart(const EvalReport& report);
// The KLD of one layer's keys or values alone, a row of cells each.
std::string SensitivityChart(const LayerSensitivity& sensitivity);

// Pieces of the above. Squares are llama.cpp's own caches; colours repeat after eight.
int CacheColor(size_t cache);
std::string CacheMarker(const EvalReport& report, size_t cache, double x, double y);
struct CacheLine {
  size_t cache = 0;
  std::vector<std::pair<double, double>> points;
};
struct LineChartText {
  std::string label, x, y;
  bool log = false;  // of y
};
std::string LineChart(const EvalReport& report, std::vector<CacheLine> lines, const LineChartText& text);

}  // namespace swivel

#endif  // SWIVEL_EVAL_REPORT_CHARTS_H_
