// Lines over a common axis, a cache each, with their names at the end.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/report_charts.h"
#include "eval/svg.h"

namespace swivel {

std::string LineChart(const EvalReport& report, std::vector<CacheLine> lines, const LineChartText& text) {
  constexpr int kWidth = 700, kHeight = 420;
  std::erase_if(lines, [](const CacheLine& line) { return line.points.empty(); });
  double left = 1e18, right = -1e18, low = 1e18, high = -1e18;
  for (const CacheLine& line : lines) {
    for (const auto& [x, y] : line.points) {
      left = std::min(left, x);
      right = std::max(right, x);
      low = std::min(low, y);
      high = std::max(high, y);
    }
  }
  if (lines.empty() || !(right > left)) return "";
  const Box plot = {74, 14, kWidth - 170, kHeight - 52};
  const double room = (right - left) / 20;
  const Axis x = Axis::Linear(left - std::min(room, left), right + room, plot.left, plot.right);
  const Axis y = text.log ? Axis::Log(low / 1.6, std::max(high * 1.6, low * 4), plot.bottom, plot.top)
                          : Axis::Linear(0, 1.05 * high, plot.bottom, plot.top);
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, kHeight, EscapeHtml(text.label));
  svg += XAxisSvg(x, plot, text.x) + YAxisSvg(y, plot, text.y);
  struct End {
    double x, y;
    size_t cache;
  };
  std::vector<End> ends;
  for (const CacheLine& line : lines) {
    const std::string name = EscapeHtml(report.quality.caches[line.cache].cache.name);
    std::string path, markers;
    End end = {0, 0, line.cache};
    for (const auto& [px, py] : line.points) {
      end.x = x.At(px);
      end.y = y.At(py);
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", end.x, end.y);
      markers += fmt::format("<g>{}<title>{} at {:g}: {:.4g}</title></g>", CacheMarker(report, line.cache, end.x, end.y), name, px, py);
    }
    svg += fmt::format("<path class=\"line\" style=\"--c:var(--c{})\" d=\"{}\"/>{}\n", CacheColor(line.cache), path, markers);
    ends.push_back(end);
  }
  // Names in the order of the lines, at least a line of text apart; pushed up again where the lowest would leave the drawing.
  std::sort(ends.begin(), ends.end(), [](const End& a, const End& b) { return a.y < b.y; });
  constexpr double kLine = 14;
  std::vector<double> places;
  for (const End& end : ends) places.push_back(std::max(end.y, places.empty() ? plot.top + 6 : places.back() + kLine));
  for (size_t i = places.size(); i-- > 0;) places[i] = std::min(places[i], i + 1 == places.size() ? plot.bottom : places[i + 1] - kLine);
  for (size_t i = 0; i < ends.size(); ++i) {
    const std::string& name = report.quality.caches[ends[i].cache].cache.name;
    const std::string shown = name.size() > 21 ? name.substr(0, 20) + "…" : name;
    svg += fmt::format("<path class=\"l\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>{}<text class=\"n\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n",
                       ends[i].x + 8, ends[i].y, plot.right + 6, places[i], CacheMarker(report, ends[i].cache, plot.right + 12, places[i]),
                       plot.right + 21, places[i] + 4, EscapeHtml(shown));
  }
  return svg + "</svg>\n";
}

}  // namespace swivel
