#include "eval/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace swivel {
namespace {

// Of the page, and of its drawings: a drawing that is exported takes the second with it.
constexpr const char* kPageStyle = R"(
:root { --page:#fff; --ink:#1b1f24; --soft:#57606a; --grid:#d8dee4; --faint:#eef1f4; --good:#187a3a; --bad:#b3261e;
  --c0:#0b62c4; --c1:#b3430a; --c2:#187a3a; --c3:#7b3fb5; --c4:#a3195b; --c5:#006f7f; --c6:#7a5c00; --c7:#4a4f57; }
@media (prefers-color-scheme: dark) { :root { --page:#0f1318; --ink:#e6eaef; --soft:#9aa5b1; --grid:#323a44; --faint:#1c222a; --good:#62d18a;
  --bad:#ff8a80; --c0:#6fb1ff; --c1:#ff9a5c; --c2:#62d18a; --c3:#c49bff; --c4:#ff86b8; --c5:#4fd0df; --c6:#e2c14a; --c7:#b8c0ca; } }
body { background:var(--page); color:var(--ink); font:15px/1.5 system-ui, sans-serif; margin:0 auto; max-width:1000px; padding:20px; }
h1 { font-size:22px; line-height:1.25; margin:0 0 4px; } h2 { font-size:17px; margin:36px 0 6px; }
p { margin:4px 0 10px; color:var(--soft); } nav a { margin-right:14px; } a { color:var(--c0); }
:focus-visible { outline:2px solid var(--c0); outline-offset:2px; }
svg { width:100%; height:auto; display:block; }
.key { display:flex; flex-wrap:wrap; gap:2px 16px; font-size:13px; margin:6px 0; } .key svg { width:16px; height:16px; display:inline-block; vertical-align:-3px; margin-right:4px; }
.scroll { overflow-x:auto; } .scroll svg { min-width:680px; } table { border-collapse:collapse; font-size:13px; font-variant-numeric:tabular-nums; margin-top:8px; }
th, td { padding:3px 9px; text-align:right; border-bottom:1px solid var(--grid); white-space:nowrap; } thead th { white-space:normal; vertical-align:bottom; color:var(--soft); font-weight:600; }
th:first-child, .why { text-align:left; } .why { color:var(--soft); white-space:normal; }
)";
constexpr const char* kChartStyle = R"(
.g { stroke:var(--grid); fill:none; } .minor { stroke:var(--faint); }
.t { fill:var(--soft); font:12px system-ui, sans-serif; } .a { fill:var(--ink); font:13px system-ui, sans-serif; }
.b { fill:var(--soft); font:italic 12.5px system-ui, sans-serif; }
.bound { stroke:var(--soft); stroke-width:2; stroke-dasharray:7 4; fill:none; }
.f { stroke:var(--c); stroke-width:1.3; opacity:.45; fill:none; } .l { stroke:var(--soft); stroke-width:.8; fill:none; }
.m { fill:var(--c); stroke:var(--page); stroke-width:1; }
.n { fill:var(--ink); font:11.5px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; paint-order:stroke; stroke:var(--page); stroke-width:3px; stroke-linejoin:round; }
.line { stroke:var(--c); stroke-width:2; fill:none; } .bar { fill:var(--c); } .e { stroke:var(--c); stroke-width:1.4; fill:none; }
.s { stroke:var(--ink); stroke-width:1.5; fill:none; } .cell { stroke:var(--page); stroke-width:1; }
)";

}  // namespace

std::string EscapeHtml(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Marker(int family, double x, double y) {
  const double r = kMarkerRadius;
  const char* style = "class=\"m\"";
  const std::string color = fmt::format("style=\"--c:var(--c{})\"", family % kNumColors);
  switch ((family + family / kNumColors) % 4) {
    case 0:
      return fmt::format("<circle {} {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>", style, color, x, y, r);
    case 1:
      return fmt::format("<rect {} {} x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", style, color, x - 0.85 * r,
                         y - 0.85 * r, 1.7 * r, 1.7 * r);
    case 2:
      return fmt::format("<path {} {} d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}h{:.1f}z\"/>", style, color, x, y - 1.1 * r, 1.1 * r, 1.9 * r,
                         -2.2 * r);
    default:
      return fmt::format("<path {} {} d=\"M{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}l{:.1f} {:.1f}z\"/>", style, color, x, y - 1.25 * r,
                         1.25 * r, 1.25 * r, -1.25 * r, 1.25 * r, -1.25 * r, -1.25 * r);
  }
}

double Axis::At(double value) const {
  const double place =
      log_ ? (std::log10(value) - std::log10(low_)) / (std::log10(high_) - std::log10(low_)) : (value - low_) / (high_ - low_);
  return from_ + (to_ - from_) * place;
}

std::vector<Axis::Tick> Axis::Ticks(int most) const {
  std::vector<Tick> ticks;
  constexpr double kSlack = 1e-9;
  if (log_) {
    const bool few = std::log10(high_ / low_) < 3.5;
    for (int decade = static_cast<int>(std::floor(std::log10(low_))); decade <= static_cast<int>(std::ceil(std::log10(high_))); ++decade) {
      for (const int digit : {1, 2, 5}) {
        const double value = digit * std::pow(10, decade);
        if (value >= low_ * (1 - kSlack) && value <= high_ * (1 + kSlack)) ticks.push_back({value, digit == 1 || few});
      }
    }
    return ticks;
  }
  // 1, 2 or 5 times a power of ten.
  const double rough = (high_ - low_) / most;
  double step = std::pow(10, std::floor(std::log10(rough)));
  for (const double factor : {1.0, 2.0, 5.0, 10.0}) {
    if (step * factor < rough) continue;
    step *= factor;
    break;
  }
  for (double i = std::ceil(low_ / step - kSlack); i * step <= high_ + kSlack * step; ++i)
    ticks.push_back({i * step + 0.0, true});  // + 0: not "-0"
  return ticks;
}

namespace {

std::string TickText(double value) {
  std::string text = fmt::format("{:g}", value);
  if (const size_t exponent = text.find("e-0"); exponent != std::string::npos) text.erase(exponent + 2, 1);
  return text;
}

}  // namespace

std::string XAxisSvg(const Axis& axis, const Box& plot, const std::string& title) {
  std::string svg;
  for (const Axis::Tick& tick : axis.Ticks()) {
    svg += fmt::format("<path class=\"g{}\" d=\"M{:.1f} {}V{}\"/>", tick.major ? "" : " minor", axis.At(tick.value), plot.top, plot.bottom);
    if (!tick.major) continue;
    svg += fmt::format("<text class=\"t\" x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", axis.At(tick.value), plot.bottom + 18,
                       TickText(tick.value));
  }
  return svg + fmt::format("<text class=\"a\" x=\"{:.0f}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n", (plot.left + plot.right) / 2,
                           plot.bottom + 40, EscapeHtml(title));
}

std::string YAxisSvg(const Axis& axis, const Box& plot, const std::string& title) {
  std::string svg;
  for (const Axis::Tick& tick : axis.Ticks()) {
    svg += fmt::format("<path class=\"g{}\" d=\"M{} {:.1f}H{}\"/>", tick.major ? "" : " minor", plot.left, axis.At(tick.value), plot.right);
    if (!tick.major) continue;
    svg += fmt::format("<text class=\"t\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n", plot.left - 8, axis.At(tick.value) + 4,
                       TickText(tick.value));
  }
  return svg + fmt::format("<text class=\"a\" transform=\"translate(14 {:.0f}) rotate(-90)\" text-anchor=\"middle\">{}</text>\n",
                           (plot.top + plot.bottom) / 2, EscapeHtml(title));
}

std::string PageHead(const std::string& title) {
  return "<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width, "
         "initial-scale=1\">\n<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n<title>" +
         EscapeHtml(title) + "</title>\n<style>\n" + kPageStyle + "</style>\n<style id=\"chart-style\">\n" + kChartStyle +
         "</style></head><body>\n";
}

}  // namespace swivel
