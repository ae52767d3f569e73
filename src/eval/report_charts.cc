// The charts of divergences; report_bars.cc has the others.
#include "eval/report_charts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "eval/label_layout.h"
#include "eval/svg.h"

namespace swivel {
namespace {

constexpr int kWidth = 700;
// A divergence of zero has no place on a logarithmic axis; it is drawn at its lower end.
constexpr double kLeastKld = 1e-7;

bool Drawn(const CacheQuality& cache) { return cache.prefill.kld.mean && cache.prefill.kld.invalid == 0; }

std::string Color(size_t cache) { return fmt::format("style=\"--c:var(--c{})\"", CacheColor(cache)); }

// The decades around the values, at least one.
std::pair<double, double> Range(const std::vector<double>& values) {
  double low = 1e9, high = kLeastKld;
  for (const double value : values) {
    low = std::min(low, std::max(value, kLeastKld));
    high = std::max(high, value);
  }
  return {low / 1.6, std::max(high * 1.6, low * 4)};
}

std::string Open(int height, const std::string& label) {
  return fmt::format("<svg viewBox=\"0 0 {} {}\" role=\"img\" aria-label=\"{}\">\n", kWidth, height, EscapeHtml(label));
}

}  // namespace

int CacheColor(size_t cache) { return static_cast<int>((cache + kNumColors - 1) % kNumColors); }

std::string CacheMarker(const EvalReport& report, size_t cache, double x, double y) {
  const double r = report.quality.caches[cache].cache.stock ? 4.5 : kMarkerRadius;
  if (report.quality.caches[cache].cache.stock) {
    return fmt::format("<rect class=\"m\" {} x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>", Color(cache), x - r, y - r,
                       2 * r, 2 * r);
  }
  return fmt::format("<circle class=\"m\" {} cx=\"{:.1f}\" cy=\"{:.1f}\" r=\"{:.1f}\"/>", Color(cache), x, y, r);
}

std::string RateChart(const EvalReport& report) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  std::vector<size_t> order;  // best last, so that labels of the crowded lower end choose first
  std::vector<double> values;
  double most_bits = 0;
  for (size_t i = 1; i < caches.size(); ++i) {
    if (!Drawn(caches[i]) || !caches[i].use.bits_per_value) continue;
    order.push_back(i);
    values.push_back(*caches[i].prefill.kld.mean);
    most_bits = std::max(most_bits, *caches[i].use.bits_per_value);
  }
  if (order.empty()) return "";
  const Agreement& kernels = report.quality.floor_decode;
  const double kernels_kld = kernels.kld.mean.value_or(0);
  const auto [low, high] = Range(values);
  constexpr int kHeight = 440;
  const Box plot = {74, 14, kWidth - 14, kHeight - 52};
  const Axis x = Axis::Linear(0, std::ceil(most_bits + 0.5), plot.left, plot.right), y = Axis::Log(low, high, plot.bottom, plot.top);
  std::string svg = Open(kHeight, "Bits a value against KL divergence from f16");
  svg += XAxisSvg(x, plot, "bits a packed value, scales and means counted (f16: 16)");
  svg += YAxisSvg(y, plot, "KL divergence from f16, nats a token");
  std::vector<Box> avoid;
  if (y.Holds(kernels_kld)) {
    svg += fmt::format(
        "<path class=\"bound\" d=\"M{} {:.1f}H{}\"/><text class=\"b\" x=\"{}\" y=\"{:.1f}\">llama.cpp’s own two kernels are "
        "this far apart</text>\n",
        plot.left, y.At(kernels_kld), plot.right, plot.left + 6, y.At(kernels_kld) - 6);
    avoid.push_back({plot.left, y.At(kernels_kld) - 20, plot.left + 290, y.At(kernels_kld) + 3});
  }
  std::vector<LabelRequest> labels;
  std::string markers;
  std::sort(order.begin(), order.end(), [&](size_t a, size_t b) { return *caches[a].use.bits_per_value < *caches[b].use.bits_per_value; });
  for (const size_t i : order) {
    const CacheQuality& cache = caches[i];
    const double px = x.At(*cache.use.bits_per_value), mean = std::max(*cache.prefill.kld.mean, low), py = y.At(mean);
    labels.push_back({px, py, 6.9 * static_cast<double>(cache.cache.name.size()) + 4, 13});
    const double error = cache.prefill.kld.mean_err.value_or(0);
    if (error > 0) {
      const double top = y.At(std::min(mean + error, high)), bottom = y.At(std::max(mean - error, low));
      svg += fmt::format("<path class=\"e\" {} d=\"M{:.1f} {:.1f}V{:.1f}\"/>", Color(i), px, top, bottom);
    }
    markers += fmt::format("<g>{}<title>{}: {:.4g} bits, KLD {:.3g} ± {:.2g}</title></g>\n", CacheMarker(report, i, px, py),
                           EscapeHtml(cache.cache.name), *cache.use.bits_per_value, mean, error);
  }
  const std::vector<LabelPlace> places = PlaceLabels(labels, plot, kMarkerRadius + 1, avoid);
  for (size_t i = 0; i < order.size(); ++i) {
    const Box& box = places[i].box;
    if (places[i].needs_line) {
      svg += fmt::format("<path class=\"l\" d=\"M{:.1f} {:.1f}L{:.1f} {:.1f}\"/>\n", labels[i].x, labels[i].y,
                         std::clamp(labels[i].x, box.left, box.right), std::clamp(labels[i].y, box.top, box.bottom));
    }
    markers += fmt::format("<text class=\"n\" x=\"{:.1f}\" y=\"{:.1f}\">{}</text>\n", box.left + 2, box.bottom - 3,
                           EscapeHtml(caches[order[i]].cache.name));
  }
  return svg + markers + "</svg>\n";
}

std::string PositionChart(const EvalReport& report) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  std::vector<CacheLine> lines;
  for (size_t i = 1; i < caches.size(); ++i) {
    if (!Drawn(caches[i])) continue;
    CacheLine line{i, {}};
    for (const PositionBucket& bucket : caches[i].prefill.by_position) {
      line.points.emplace_back((bucket.begin + bucket.end) / 2.0, std::max(bucket.mean.mean, kLeastKld));
    }
    lines.push_back(std::move(line));
  }
  return LineChart(report, lines,
                   {"KL divergence by position in the context", "position in the context, tokens", "KL divergence from f16, nats a token",
                    /*log=*/true});
}

std::string SpeedChart(const EvalReport& report) {
  if (report.depths.size() < 2) return "";
  std::vector<CacheLine> lines;
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    CacheLine line{i, {}};
    for (size_t d = 0; d < report.depths.size(); ++d) {
      const Measurement& speed = report.speed_at[d][i];
      if (speed.decode_tps) line.points.emplace_back(report.depths[d], *speed.decode_tps);
    }
    lines.push_back(std::move(line));
  }
  return LineChart(report, lines, {"Generation by depth", "tokens in the cache", "tokens a second", /*log=*/false});
}

std::string HistogramChart(const EvalReport& report) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  constexpr double kLow = -7, kHigh = 1.5, kBins = 68;  // eight bins a decade
  constexpr double kRow = 46, kBars = 34;
  std::vector<size_t> rows;
  size_t most = 1;
  std::vector<std::vector<size_t>> counts;
  for (size_t i = 1; i < caches.size(); ++i) {
    if (!Drawn(caches[i])) continue;
    std::vector<size_t> bins(static_cast<size_t>(kBins), 0);
    for (const float kld : caches[i].prefill.series.kld) {
      const double place = (std::log10(std::max<double>(kld, 1e-30)) - kLow) / (kHigh - kLow) * kBins;
      ++bins[static_cast<size_t>(std::clamp(place, 0.0, kBins - 1))];
    }
    most = std::max(most, *std::max_element(bins.begin(), bins.end()));
    rows.push_back(i);
    counts.push_back(std::move(bins));
  }
  if (rows.empty()) return "";
  const double bottom = 22 + kRow * static_cast<double>(rows.size());
  const Box plot = {150, 12, kWidth - 14, bottom};
  const Axis x = Axis::Log(std::pow(10, kLow), std::pow(10, kHigh), plot.left, plot.right);
  std::string svg = Open(static_cast<int>(bottom) + 52, "How many tokens have which KL divergence");
  svg += XAxisSvg(x, plot, "KL divergence of a token, nats (the first bar holds all below)");
  const double scale = kBars / std::log10(static_cast<double>(most) + 1);
  for (size_t r = 0; r < rows.size(); ++r) {
    const CacheQuality& cache = caches[rows[r]];
    const double base = 16 + kRow * static_cast<double>(r + 1);
    const std::string& name = cache.cache.name;
    svg += fmt::format("<text class=\"n\" x=\"{}\" y=\"{:.1f}\" text-anchor=\"end\">{}<title>{}</title></text>\n", plot.left - 8, base - 10,
                       EscapeHtml(name.size() > 19 ? name.substr(0, 18) + "…" : name), EscapeHtml(name));
    std::string path;
    const double width = (plot.right - plot.left) / kBins;
    for (size_t b = 0; b < counts[r].size(); ++b) {
      if (counts[r][b] == 0) continue;
      const double height = scale * std::log10(static_cast<double>(counts[r][b]) + 1);
      path +=
          fmt::format("M{:.1f} {:.1f}v{:.1f}h{:.1f}V{:.1f}z", plot.left + width * static_cast<double>(b), base, -height, width - 0.6, base);
    }
    svg += fmt::format("<path class=\"bar\" {} d=\"{}\"/><path class=\"g\" d=\"M{} {:.1f}H{}\"/>", Color(rows[r]), path, plot.left, base,
                       plot.right);
    for (const auto& [value, what] : {std::pair(cache.prefill.kld.median, "median"), std::pair(cache.prefill.kld.p99, "99 %"),
                                      std::pair(cache.prefill.kld.max, "largest")}) {
      if (!value || !x.Holds(*value)) continue;
      svg += fmt::format("<path class=\"s\" d=\"M{:.1f} {:.1f}v{}\"><title>{}: {} {:.3g}</title></path>", x.At(*value), base + 4,
                         -kBars - 2, EscapeHtml(name), what, *value);
    }
    svg += "\n";
  }
  return svg + "</svg>\n";
}

}  // namespace swivel
