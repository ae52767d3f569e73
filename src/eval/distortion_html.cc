#include "eval/distortion_html.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

#include "base/version.h"
#include "eval/label_layout.h"
#include "eval/svg.h"
#include "eval/system_info.h"

namespace swivel {
namespace {

// Rates above this are drawn only where there is nothing below: an axis up to 16 bits would squeeze everything of interest into a corner.
constexpr double kMostBits = 6.5;
constexpr int kWidth = 920, kHeight = 560;
constexpr Box kPlot = {70, 16, 900, 500};

std::string Shown(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "–";
}

// What one chart shows: the rows that were measured, their families, and the scales of the axes.
struct Chart {
  std::vector<const DistortionRow*> drawn, beyond;
  std::vector<std::string> families;
  double most_bits = kMostBits, top = 0, bottom = 0;  // log10 of the distortion at the ends of the axis
  Axis x = Axis::Linear(0, 1, 0, 1), y = Axis::Linear(0, 1, 0, 1);

  explicit Chart(std::span<const DistortionRow> rows) {
    std::vector<const DistortionRow*> measured;
    for (const DistortionRow& row : rows) {
      if (row.mse) measured.push_back(&row);
    }
    const bool any_low = std::any_of(measured.begin(), measured.end(), [](const auto* row) { return *row->bits <= kMostBits; });
    double low_bits = kMostBits, high_bits = 0;
    for (const DistortionRow* row : measured) {
      const bool fits = (!any_low || *row->bits <= kMostBits) && *row->mse > 0;
      (fits ? drawn : beyond).push_back(row);
      if (!fits) continue;
      low_bits = std::min(low_bits, *row->bits);
      high_bits = std::max(high_bits, *row->bits);
      const std::string family = CodecFamily(row->codec);
      if (std::find(families.begin(), families.end(), family) == families.end()) families.push_back(family);
    }
    most_bits = std::max(2.0, std::ceil(2 * high_bits + 0.5) / 2);
    double least = std::pow(4, -high_bits), most = std::pow(4, -std::max(low_bits - 0.5, 0.0));
    for (const DistortionRow* row : drawn) {
      least = std::min(least, *row->mse);
      most = std::max(most, *row->mse);
    }
    bottom = std::log10(std::max(least, 1e-12)) - 0.15;
    top = std::log10(most) + 0.15;
    x = Axis::Linear(0, most_bits, kPlot.left, kPlot.right);
    y = Axis::Log(std::pow(10, bottom), std::pow(10, top), kPlot.bottom, kPlot.top);
  }

  int Family(const DistortionRow& row) const {
    return static_cast<int>(std::find(families.begin(), families.end(), CodecFamily(row.codec)) - families.begin());
  }
  double X(double bits) const { return x.At(bits); }
  double Y(double distortion) const { return y.At(std::max(distortion, 1e-12)); }
};

std::string Axes(const Chart& chart) {
  return XAxisSvg(chart.x, kPlot, "rate: bits a value, everything counted") +
         YAxisSvg(chart.y, kPlot, "distortion: mean of ‖x − x̃‖² / ‖x‖²");
}

// D(R) = 4^-R is a straight line on a logarithmic axis.
std::string Bound(const Chart& chart, std::vector<Box>* avoid) {
  const double begin = std::max(0.0, -chart.top / std::log10(4.0)), end = std::min(chart.most_bits, -chart.bottom / std::log10(4.0));
  const double x1 = chart.X(begin), y1 = chart.Y(std::pow(4, -begin)), x2 = chart.X(end), y2 = chart.Y(std::pow(4, -end));
  for (int i = 0; i < 100; ++i) {
    const double x = x1 + (x2 - x1) * i / 100, y = y1 + (y2 - y1) * i / 100;
    avoid->push_back({x - 3, y - 3, x + 3, y + 3});
  }
  std::string svg = fmt::format("<path class=\"bound\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", x1, y1, x2, y2);
  // Below the line near its lower end, where there can be no point of a Gaussian source.
  const double x = x1 + 0.62 * (x2 - x1), y = y1 + 0.62 * (y2 - y1);
  const double angle = std::atan2(y2 - y1, x2 - x1) * 180 / 3.14159265358979323846;
  svg += fmt::format(
      "<text class=\"b\" transform=\"translate({:.1f} {:.1f}) rotate({:.1f})\" text-anchor=\"middle\">D(R) = 4⁻ᴿ, Shannon’s bound for a "
      "Gaussian source</text>\n",
      x - 10, y + 16, angle);
  return svg;
}

std::string Points(const Chart& chart, std::vector<Box> avoid) {
  std::string svg;
  // Lines first, so that they lie below all markers and names.
  for (size_t family = 0; family < chart.families.size(); ++family) {
    std::vector<const DistortionRow*> members;
    for (const DistortionRow* row : chart.drawn) {
      if (chart.Family(*row) == static_cast<int>(family)) members.push_back(row);
    }
    // A curve over rates: the best member at each.
    std::stable_sort(members.begin(), members.end(),
                     [](const auto* x, const auto* y) { return std::pair(*x->bits, *x->mse) < std::pair(*y->bits, *y->mse); });
    members.erase(std::unique(members.begin(), members.end(), [](const auto* x, const auto* y) { return *x->bits == *y->bits; }),
                  members.end());
    std::string path;
    for (const DistortionRow* row : members)
      path += fmt::format("{}{:.1f} {:.1f}", path.empty() ? "M" : "L", chart.X(*row->bits), chart.Y(*row->mse));
    if (members.size() > 1) svg += fmt::format("<path class=\"f\" style=\"--c:var(--c{})\" d=\"{}\"/>\n", family % kNumColors, path);
  }
  // Codecs whose points cannot be told apart (rotations of one kind on Gaussian vectors) share one block of names.
  std::vector<const DistortionRow*> order = chart.drawn;
  std::stable_sort(order.begin(), order.end(), [](const auto* a, const auto* b) { return *a->mse > *b->mse; });
  std::vector<std::vector<const DistortionRow*>> blocks;
  for (const DistortionRow* row : order) {
    const auto same_place = [&](const std::vector<const DistortionRow*>& block) {
      return std::fabs(chart.X(*block[0]->bits) - chart.X(*row->bits)) < kMarkerRadius &&
             std::fabs(chart.Y(*block[0]->mse) - chart.Y(*row->mse)) < kMarkerRadius;
    };
    const auto block = std::find_if(blocks.begin(), blocks.end(), same_place);
    if (block == blocks.end()) {
      blocks.push_back({row});
    } else {
      block->push_back(row);
    }
  }
  constexpr double kLine = 13, kLetter = 6.9;
  std::vector<LabelRequest> labels;
  for (const auto& block : blocks) {
    size_t letters = 0;
    for (const DistortionRow* row : block) letters = std::max(letters, row->codec.size());
    labels.push_back({chart.X(*block[0]->bits), chart.Y(*block[0]->mse), kLetter * static_cast<double>(letters) + 2,
                      kLine * static_cast<double>(block.size())});
  }
  const std::vector<LabelPlace> places = PlaceLabels(labels, kPlot, kMarkerRadius + 1, avoid);
  std::string markers;
  for (size_t i = 0; i < blocks.size(); ++i) {
    const Box& box = places[i].box;
    if (places[i].needs_line) {
      svg += fmt::format("<path class=\"l\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", labels[i].x, labels[i].y,
                         std::clamp(labels[i].x, box.left, box.right), std::clamp(labels[i].y, box.top, box.bottom));
    }
    // Text right of its point begins there, text left of it ends there.
    const bool left_of_point = box.right < labels[i].x;
    for (size_t line = 0; line < blocks[i].size(); ++line) {
      const DistortionRow& row = *blocks[i][line];
      markers += fmt::format(
          "<g>{}<text class=\"n\" x=\"{:.1f}\" y=\"{:.1f}\"{}>{}</text><title>{}: {:.3f} bits, distortion {:.4g}, {:.2f} bits above "
          "D(R)</title></g>\n",
          Marker(chart.Family(row), chart.X(*row.bits), chart.Y(*row.mse)), left_of_point ? box.right - 1 : box.left + 1,
          box.top + kLine * static_cast<double>(line + 1) - 3, left_of_point ? " text-anchor=\"end\"" : "", EscapeHtml(row.codec),
          EscapeHtml(row.codec), *row.bits, *row.mse, *row.bits + std::log2(*row.mse) / 2);
    }
  }
  return svg + markers;
}

std::string ChartSvg(const Chart& chart, const std::string& title) {
  std::vector<Box> avoid;
  std::string svg = fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"Rate against distortion, {}\">\n", kWidth, kHeight,
                                EscapeHtml(title));
  svg += Axes(chart);
  svg += Bound(chart, &avoid);
  svg += Points(chart, std::move(avoid));
  return svg + "</svg>\n";
}

std::string TableHtml(std::span<const DistortionRow> rows, Target target) {
  std::string html = fmt::format(
      "<div class=\"scroll\"><table><thead><tr><th>codec</th><th>bits</th><th>distortion</th><th>± %</th><th>above D(R), bits</th>"
      "<th>centred</th><th>inner product: d·variance</th><th>bias</th><th>softmax KL, nats</th><th>encode ns ({})</th><th>encode ns "
      "(scalar)</th>"
      "<th>decode ns (scalar)</th></tr></thead><tbody>\n",
      TargetName(target));
  for (const DistortionRow& row : rows) {
    if (!row.reason.empty()) {
      html += fmt::format("<tr><th>{}</th><td>{}</td><td class=\"why\" colspan=\"10\">not measured: {}</td></tr>\n", EscapeHtml(row.codec),
                          Shown(row.bits, "{:.3f}"), EscapeHtml(row.reason));
      continue;
    }
    const std::string percent = row.mse_err && *row.mse > 0 ? fmt::format("{:.2f}", 100 * *row.mse_err / *row.mse) : "–";
    const std::string gap = *row.mse > 0 ? fmt::format("{:.2f}", *row.bits + std::log2(*row.mse) / 2) : "–";
    html += fmt::format(
        "<tr><th>{}</th><td>{:.3f}</td><td>{:.3e}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</td><td>{}</"
        "td><td>{}</td></tr>\n",
        EscapeHtml(row.codec), *row.bits, *row.mse, percent, gap, Shown(row.mse_centered, "{:.3e}"), Shown(row.ip_var_times_d, "{:.3e}"),
        Shown(row.ip_bias, "{:+.4f}"), Shown(row.softmax_kl, "{:.3e}"), Shown(row.encode_ns, "{:.0f}"),
        Shown(row.encode_scalar_ns, "{:.0f}"), Shown(row.decode_ns, "{:.0f}"));
  }
  return html + "</tbody></table></div>\n";
}

}  // namespace

std::string CodecFamily(const std::string& codec) {
  const size_t begin = std::min(codec.find_first_of("0123456789"), codec.size());
  const size_t end = std::min(codec.find_first_not_of("0123456789.", begin), codec.size());
  return codec.substr(0, begin) + codec.substr(end);
}

std::string DistortionHtml(const std::vector<DistortionRow>& rows, Target target) {
  std::string navigation, sections;
  size_t number = 0;
  for (size_t begin = 0; begin < rows.size(); ++number) {
    size_t end = begin;
    while (end < rows.size() && rows[end].source == rows[begin].source && rows[end].width == rows[begin].width) ++end;
    const std::span<const DistortionRow> group(&rows[begin], end - begin);
    const DistortionRow& first = rows[begin];
    const std::string title = fmt::format("{}, d = {}", first.source, first.width);
    navigation += fmt::format("<a href=\"#s{}\">{}</a>\n", number, EscapeHtml(title));
    std::string scale = ScaleNames(group);
    if (!scale.empty()) scale = ", scale of a row: " + scale;
    sections += fmt::format("<section id=\"s{}\"><h2>{}</h2>\n<p>{} vectors stored as {}{}</p>\n", number, EscapeHtml(title), first.vectors,
                            first.side == Side::kKey ? "keys" : "values", scale);
    const Chart chart(group);
    if (!chart.drawn.empty()) {
      sections += "<div class=\"key\">";
      for (size_t family = 0; family < chart.families.size(); ++family) {
        sections += fmt::format("<span><svg viewBox=\"0 0 16 16\">{}</svg>{}</span>", Marker(static_cast<int>(family), 8, 8),
                                EscapeHtml(chart.families[family]));
      }
      sections += "</div>\n<div class=\"scroll\">" + ChartSvg(chart, title) + "</div>\n";
    }
    if (!chart.beyond.empty()) {
      std::string names;
      for (const DistortionRow* row : chart.beyond) {
        names += fmt::format("{}{} ({:.3g} bits, {:.2g})", names.empty() ? "" : ", ", EscapeHtml(row->codec), *row->bits, *row->mse);
      }
      sections += fmt::format("<p>Outside of the chart: {}.</p>\n", names);
    }
    sections += TableHtml(group, target) + "</section>\n";
    begin = end;
  }
  return PageHead("Rate and distortion of KV-cache codecs") +
         fmt::format(
             "<h1>Rate and distortion of KV-cache codecs</h1>\n<p>swivel {}, {} ({}), by <code>swivel distortion</code>. Lower is better, "
             "and so is "
             "further left. The dashed line is the least distortion that any code of that rate can have on independent Gaussian values; "
             "structured vectors may lie below it.</p>\n",
             SWIVEL_VERSION, EscapeHtml(CpuName()), TargetName(target)) +
         (number > 1 ? "<nav>" + navigation + "</nav>\n" : "") + sections + "</body></html>\n";
}

}  // namespace swivel
