#include "cli/calibration_info.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>

#include "calibrate/transform.h"
#include "cli/size_table.h"

namespace swivel::cli {
namespace {

// Of the heads of a layer.
struct Row {
  double fewest_keys = 0;   // effective
  double longest_mean = 0;  // norm
  // Predicted noise against a rotation, geometric mean; absent when a head has no transform.
  std::optional<double> diagonal, full;
};

std::optional<double> Noise(const LayerMoments& layer, TransformKind kind) {
  double sum = 0;
  for (const HeadMoments& head : layer.heads) {
    const StatusOr<KeyTransform> transform = MakeTransform(head, kind, kFileShrink, /*use_mean=*/true, /*two_segments=*/false);
    if (!transform.ok()) return {};
    sum += std::log(NoiseRatio(head, transform.value()));
  }
  return std::exp(sum / static_cast<double>(layer.heads.size()));
}

Row RowOf(const LayerMoments& layer) {
  Row row;
  row.fewest_keys = layer.heads[0].effective_keys();
  for (const HeadMoments& head : layer.heads) {
    double square = 0;
    for (double value : head.mean) square += value * value;
    row.longest_mean = std::max(row.longest_mean, std::sqrt(square));
    row.fewest_keys = std::min(row.fewest_keys, head.effective_keys());
  }
  row.diagonal = Noise(layer, TransformKind::kDiagonal);
  row.full = Noise(layer, TransformKind::kFull);
  return row;
}

std::string Json(const std::string& path, const Calibration& calibration) {
  using Object = nlohmann::ordered_json;
  const auto number = [](const std::optional<double>& value) { return value ? Object(*value) : Object(); };
  Object layers = Object::array();
  for (const LayerMoments& layer : calibration.layers) {
    const Row row = RowOf(layer);
    layers.push_back({{"layer", layer.layer},
                      {"heads", layer.heads.size()},
                      {"d", layer.width},
                      {"fewest_effective_keys", row.fewest_keys},
                      {"longest_mean", row.longest_mean},
                      {"noise_diagonal", number(row.diagonal)},
                      {"noise_full", number(row.full)}});
  }
  const Object report = {{"file", path},
                         {"fingerprint", fmt::format("{:016x}", calibration.fingerprint)},
                         {"description", calibration.description},
                         {"chunk_tokens", calibration.chunk_tokens},
                         {"chunks", calibration.num_chunks},
                         {"planned_chunks", calibration.planned_chunks},
                         {"tokens", calibration.num_tokens},
                         {"group_means", calibration.group_means},
                         {"layers", layers}};
  return report.dump(2, ' ', false, Object::error_handler_t::replace) + "\n";
}

}  // namespace

std::string CalibrationInfo(const std::string& path, const Calibration& calibration, const std::string& format) {
  if (format == "json") return Json(path, calibration);
  std::string text = fmt::format("{}: {}\nfingerprint {:016x}, {} of {} chunks of {} tokens{}\n\n", path, calibration.description,
                                 calibration.fingerprint, calibration.num_chunks, calibration.planned_chunks, calibration.chunk_tokens,
                                 calibration.group_means ? ", keys centred by groups of 128" : "");
  Table table;
  table.text_columns = 0;
  table.header = {"layer", "KV heads", "d", "effective keys", "norm of mean", "noise, diagonal", "noise, full"};
  const auto ratio = [](const std::optional<double>& value) { return value ? fmt::format("{:.3f}", *value) : std::string("-"); };
  for (const LayerMoments& layer : calibration.layers) {
    const Row row = RowOf(layer);
    table.rows.push_back({fmt::format("{}", layer.layer), fmt::format("{}", layer.heads.size()), fmt::format("{}", layer.width),
                          fmt::format("{:.0f}", row.fewest_keys), fmt::format("{:.1f}", row.longest_mean), ratio(row.diagonal),
                          ratio(row.full)});
  }
  text += table.Markdown();
  text += fmt::format(
      "\nEffective keys: of the head with fewest. Noise of logits at equal bits as a share of a rotation's, predicted with off-diagonals "
      "times {}.\n",
      kFileShrink);
  return text;
}

}  // namespace swivel::cli
