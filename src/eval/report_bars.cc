// Bars and grids of an evaluation's page.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/report_charts.h"
#include "eval/svg.h"

namespace swivel {
namespace {

constexpr int kWidth = 700;
// Where nothing but rounding is left.
constexpr double kLeastSensitivity = 1e-8;

std::string Shortened(const std::string& name) { return name.size() > 21 ? name.substr(0, 20) + "…" : name; }

}  // namespace

std::string BarChart(const EvalReport& report, const std::string& unit, const std::function<std::optional<double>(size_t)>& value) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  double most = 0;
  for (size_t i = 0; i < caches.size(); ++i) most = std::max(most, value(i).value_or(0));
  if (most <= 0) return "";
  constexpr double kRow = 24, kLeft = 160;
  const double right = kWidth - 120;  // room for the longest label
  const int height = static_cast<int>(kRow * static_cast<double>(caches.size())) + 12;
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, height, EscapeHtml(unit));
  for (size_t i = 0; i < caches.size(); ++i) {
    const double y = 6 + kRow * static_cast<double>(i);
    const std::optional<double> bar = value(i);
    svg += fmt::format("<text class=\"n\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", kLeft - 8, y + 16,
                       EscapeHtml(Shortened(caches[i].cache.name)));
    if (!bar) {
      svg += fmt::format("<text class=\"t\" x=\"{}\" y=\"{:.1f}\">not measured</text>\n", kLeft + 4, y + 16);
      continue;
    }
    const double width = (right - kLeft) * *bar / most;
    svg += fmt::format(
        "<rect class=\"bar\" style=\"--c:var(--c{})\" x=\"{}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{}\"/><text class=\"t\" x=\"{:.1f}\" "
        "y=\"{:.1f}\">{:.4g} {}</text>\n",
        caches[i].cache.stock ? 7 : 0, kLeft, y + 3, width, kRow - 6, kLeft + width + 6, y + 16, *bar, EscapeHtml(unit));
  }
  return svg + "</svg>\n";
}

namespace {

struct CellState {
  const char* fill;
  const char* sign;
  std::string says;
};

// Of one depth and length, all rounds together.
CellState StateOf(const std::vector<int>& grid, size_t cell, size_t cells) {
  int base = 0, found = 0, rounds = 0;
  for (size_t item = cell; item < grid.size(); item += cells, ++rounds) {
    base += grid[item] % 2;
    found += grid[item] / 2;
  }
  std::string says = fmt::format("f16 finds {} of {}, this cache {}", base, rounds, found);
  if (found < base) return {"var(--bad)", "×", std::move(says)};
  if (found > base) return {"var(--c0)", "+", std::move(says)};
  if (base == 0) return {"var(--grid)", "·", std::move(says)};
  return {"var(--good)", "", std::move(says)};
}

}  // namespace

std::string NeedleChart(const EvalReport& report) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  constexpr double kCell = 17, kGap = 34;
  constexpr double kGridWidth = kCell * kNeedleDepths, kGridHeight = kCell * kNeedleLengths;
  constexpr int kColumns = 2;
  constexpr size_t kCells = size_t{kNeedleDepths} * kNeedleLengths;
  std::string body;
  int drawn = 0;
  for (size_t i = 1; i < caches.size(); ++i) {
    for (const TaskScore& score : caches[i].tasks) {
      if (score.task != Task::kNeedle || score.grid.empty() || score.grid.size() % kCells != 0) continue;
      if (score.lengths.size() != static_cast<size_t>(kNeedleLengths)) continue;
      const double left = 52 + (kGridWidth + kGap) * (drawn % kColumns), top = 26 + (kGridHeight + 62) * (drawn / kColumns);
      ++drawn;
      body += fmt::format("<text class=\"n\" x=\"{:.0f}\" y=\"{:.0f}\">{}</text>\n", left, top - 7,
                          EscapeHtml(Shortened(caches[i].cache.name)));
      for (size_t item = 0; item < kCells; ++item) {
        const size_t depth = item % kNeedleDepths, length = item / kNeedleDepths;
        const CellState state = StateOf(score.grid, item, kCells);
        const double x = left + kCell * static_cast<double>(depth), y = top + kCell * static_cast<double>(length);
        body += fmt::format(
            "<g><rect class=\"cell\" style=\"fill:{}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"{}\" height=\"{}\"/><text class=\"t\" "
            "style=\"fill:var(--page)\" x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"middle\">{}</text><title>depth {} %, {} tokens: "
            "{}</title></g>",
            state.fill, x, y, kCell, kCell, x + kCell / 2, y + 13, state.sign, (100 * depth + 50) / kNeedleDepths, score.lengths[length],
            state.says);
      }
      body += fmt::format("<text class=\"t\" x=\"{:.0f}\" y=\"{:.0f}\">depth {} … {} %</text>\n", left, top + kGridHeight + 16, 50 / kNeedleDepths,
                          100 - 50 / kNeedleDepths);
      if ((drawn - 1) % kColumns != 0) continue;
      for (const int length : {1, kNeedleLengths}) {
        body += fmt::format("<text class=\"t\" x=\"{:.0f}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>", left - 6,
                            top + kCell * (length - 0.25), score.lengths[static_cast<size_t>(length - 1)]);
      }
    }
  }
  if (drawn == 0) return "";
  const int height = static_cast<int>((kGridHeight + 62) * ((drawn + kColumns - 1) / kColumns)) + 10;
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Needles found, by depth and length\">\n{}</svg>\n", kWidth,
                     height, body);
}

std::string SensitivityChart(const LayerSensitivity& sensitivity) {
  double low = 0, high = 0;
  for (const auto* side : {&sensitivity.k, &sensitivity.v}) {
    for (const std::optional<double>& kld : *side) {
      if (!kld) continue;
      const double value = std::max(*kld, kLeastSensitivity);
      low = low == 0 ? value : std::min(low, value);
      high = std::max(high, value);
    }
  }
  if (high == 0) return "";
  constexpr double kLeft = 30, kTop = 8, kRow = 30;
  const double cell = (kWidth - kLeft - 4) / static_cast<double>(sensitivity.k.size());
  std::string body;
  for (const Side side : {Side::kKey, Side::kValue}) {
    const bool keys = side == Side::kKey;
    const double y = keys ? kTop : kTop + kRow + 4;
    const std::vector<std::optional<double>>& row = keys ? sensitivity.k : sensitivity.v;
    body += fmt::format("<text class=\"n\" x=\"{}\" y=\"{:.0f}\" text-anchor=\"end\">{}</text>\n", kLeft - 8, y + 20, keys ? "K" : "V");
    for (size_t layer = 0; layer < row.size(); ++layer) {
      // Shades of one colour by the logarithm: equal steps are equal factors. Nothing measured, no fill.
      const double shade =
          row[layer] && high > low ? std::log(std::max(*row[layer], kLeastSensitivity) / low) / std::log(high / low) : row[layer] ? 1 : 0;
      body += fmt::format(
          "<g><rect class=\"cell\" style=\"fill:var(--bad);fill-opacity:{:.3f}\" x=\"{:.1f}\" y=\"{:.0f}\" width=\"{:.1f}\" "
          "height=\"{}\"/><title>layer {}, {}: {}</title></g>",
          row[layer] ? 0.06 + 0.94 * shade : 0, kLeft + cell * static_cast<double>(layer), y, cell, kRow, layer, keys ? "keys" : "values",
          row[layer] ? fmt::format("KLD {:.2g}", *row[layer]) : "not measured");
    }
    body += "\n";
  }
  const double below = kTop + 2 * kRow + 4;
  const size_t step = sensitivity.k.size() > 40 ? 8 : 4;
  for (size_t layer = 0; layer < sensitivity.k.size(); layer += step) {
    body += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{:.0f}\" text-anchor=\"middle\">{}</text>",
                        kLeft + cell * (static_cast<double>(layer) + 0.5), below + 16, layer);
  }
  // The scale.
  constexpr int kSteps = 20;
  for (int i = 0; i < kSteps; ++i) {
    body += fmt::format("<rect style=\"fill:var(--bad);fill-opacity:{:.3f}\" x=\"{:.0f}\" y=\"{:.0f}\" width=\"8\" height=\"10\"/>",
                        0.06 + 0.94 * i / (kSteps - 1), kLeft + 130 + 8 * i, below + 30);
  }
  body += fmt::format(
      "<text class=\"t\" x=\"{:.0f}\" y=\"{:.0f}\" text-anchor=\"end\">KLD {:.2g}</text><text class=\"t\" x=\"{:.0f}\" y=\"{:.0f}\">{:.2g}"
      "</text>\n",
      kLeft + 124, below + 39, low, kLeft + 130 + 8 * kSteps + 6, below + 39, high);
  return fmt::format("<svg viewBox=\"0 0 {} {:.0f}\" role=\"img\" aria-label=\"KLD of each layer alone\">\n{}</svg>\n", kWidth, below + 48,
                     body);
}

}  // namespace swivel
