#include "cli/distortion_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "base/version.h"
#include "cli/size_table.h"
#include "eval/system_info.h"

namespace swivel::cli {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

// The one list of columns; JSON and CSV show all of it.
Json Record(const DistortionRow& row, Target target) {
  return {{"codec", row.codec},
          {"d", row.width},
          {"source", row.source},
          {"side", row.side == Side::kKey ? "k" : "v"},
          {"scale", row.scale ? Json(ScaleModeName(*row.scale)) : Json()},
          {"vectors", row.vectors},
          {"bits", OrNull(row.bits)},
          {"mse", OrNull(row.mse)},
          {"mse_err", OrNull(row.mse_err)},
          {"mse_centered", OrNull(row.mse_centered)},
          {"ip_var_times_d", OrNull(row.ip_var_times_d)},
          {"ip_bias", OrNull(row.ip_bias)},
          {"ip_bias_err", OrNull(row.ip_bias_err)},
          {"softmax_kl", OrNull(row.softmax_kl)},
          {"softmax_kl_err", OrNull(row.softmax_kl_err)},
          {"encode_ns", OrNull(row.encode_ns)},
          {"encode_scalar_ns", OrNull(row.encode_scalar_ns)},
          {"decode_ns", OrNull(row.decode_ns)},
          {"threads", row.threads},
          {"target", TargetName(target)},
          {"reason", row.reason.empty() ? Json() : Json(row.reason)}};
}

// A path may hold bytes that are not UTF-8; they must not cost the whole report.
std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

std::string Shown(const std::optional<double>& value, const char* format) {
  return value ? fmt::format(fmt::runtime(format), *value) : "-";
}

std::string Percent(const std::optional<double>& error, const std::optional<double>& value) {
  return error && *value > 0 ? fmt::format("{:.2f}", 100 * *error / *value) : "-";
}

}  // namespace

std::string DistortionJson(const std::vector<DistortionRow>& rows, Target target) {
  std::string text;
  for (const DistortionRow& row : rows) text += (text.empty() ? "[\n  " : ",\n  ") + Dump(Record(row, target));
  return text.empty() ? "[]\n" : text + "\n]\n";
}

std::string DistortionCsv(const std::vector<DistortionRow>& rows, Target target) {
  Table table;
  const Json empty = Record(DistortionRow(), target);
  for (const auto& item : empty.items()) table.header.push_back(item.key());
  for (const DistortionRow& row : rows) {
    std::vector<std::string> cells;
    for (const Json& cell : Record(row, target)) {
      cells.push_back(cell.is_null() ? "" : cell.is_string() ? cell.get<std::string>() : cell.dump());
    }
    table.rows.push_back(std::move(cells));
  }
  return table.Csv();
}

std::string DistortionMarkdown(const std::vector<DistortionRow>& rows, Target target) {
  std::string text;
  const int threads = rows.empty() ? 1 : rows.front().threads;
  for (size_t begin = 0; begin < rows.size();) {
    const DistortionRow& first = rows[begin];
    Table table;
    table.header = {"codec",   "bits",       "mse", "±%",        "centered mse", "ip var·d",
                    "ip bias", "softmax KL", "±%",  "encode ns", "scalar",       "decode ns"};
    std::string reasons;
    size_t end = begin;
    for (; end < rows.size() && rows[end].source == first.source && rows[end].width == first.width; ++end) {
      const DistortionRow& row = rows[end];
      table.rows.push_back({row.codec, Shown(row.bits, "{:.3f}"), Shown(row.mse, "{:.3e}"), Percent(row.mse_err, row.mse),
                            Shown(row.mse_centered, "{:.3e}"), Shown(row.ip_var_times_d, "{:.3e}"), Shown(row.ip_bias, "{:+.4f}"),
                            Shown(row.softmax_kl, "{:.3e}"), Percent(row.softmax_kl_err, row.softmax_kl), Shown(row.encode_ns, "{:.0f}"),
                            Shown(row.encode_scalar_ns, "{:.0f}"), Shown(row.decode_ns, "{:.0f}")});
      if (!row.reason.empty()) reasons += fmt::format("{}: not measured: {}\n", row.codec, row.reason);
    }
    const std::string scale = ScaleNames({&rows[begin], end - begin});
    text += fmt::format("{}### {}, d = {}: {} vectors as {}{}\n\n", begin == 0 ? "" : "\n", first.source, first.width, first.vectors,
                        first.side == Side::kKey ? "keys" : "values", scale.empty() ? "" : ", scale " + scale);
    text += table.Markdown() + (reasons.empty() ? "" : "\n" + reasons);
    begin = end;
  }
  return text +
         fmt::format(
             "\nmse: mean of ||x - x~||^2 / ||x||^2. Times of a vector; encode: {} kernels on {} thread{}, decode: scalar on one thread, "
             "rotated back with {}.\n{}; swivel {}. docs/evaluation.md defines each figure.\n",
             TargetName(target), threads, threads == 1 ? "" : "s", TargetName(target), CpuName(), SWIVEL_VERSION);
}

}  // namespace swivel::cli
