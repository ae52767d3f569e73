#include "eval/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "base/version.h"
#include "eval/system_info.h"
#include "llama/model.h"

namespace swivel {
namespace {

using Json = nlohmann::ordered_json;

template <class T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json();
}

std::string Dump(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

// A cell for people: four significant digits, memory in MiB.
std::string Shown(const std::string& key, const Json& value) {
  if (value.is_null()) return "-";
  if (value.is_string()) return value.get<std::string>();
  if (key.ends_with("_bytes")) return fmt::format("{:.0f}", value.get<double>() / (1 << 20));
  if (!value.is_number_float()) return Dump(value);
  const double number = value.get<double>();
  if (key == "share_of_stream") return fmt::format("{:.1f} %", 100 * number);
  return fmt::format("{:.{}f}", number, number >= 100 ? 1 : number >= 10 ? 2 : 3);
}

// `columns`: the keys of the rows that a table shows, and their headings.
std::string Markdown(const Json& rows, const std::vector<std::pair<const char*, const char*>>& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [key, heading] : columns) lines[0].push_back(heading);
  for (const Json& row : rows) {
    lines.emplace_back();
    for (const auto& [key, heading] : columns) lines.back().push_back(Shown(key, row[key]));
  }
  std::vector<size_t> widths(columns.size(), 0);
  for (const auto& line : lines) {
    for (size_t c = 0; c < line.size(); ++c) widths[c] = std::max(widths[c], line[c].size());
  }
  std::string text;
  for (size_t r = 0; r < lines.size(); ++r) {
    text += "|";
    for (size_t c = 0; c < columns.size(); ++c) {
      text += c < 2 ? fmt::format(" {:<{}} |", lines[r][c], widths[c]) : fmt::format(" {:>{}} |", lines[r][c], widths[c]);
    }
    text += "\n";
    if (r > 0) continue;
    text += "|";
    for (size_t c = 0; c < columns.size(); ++c)
      text += c < 2 ? std::string(widths[c] + 2, '-') + "|" : std::string(widths[c] + 1, '-') + ":|";
    text += "\n";
  }
  return text;
}

std::string Csv(const Json& rows) {
  std::string text;
  if (rows.empty()) return text;
  for (const auto& item : rows[0].items()) text += (text.empty() ? "" : ",") + item.key();
  for (const Json& row : rows) {
    text += "\n";
    bool first = true;
    for (const Json& cell : row) {
      if (!std::exchange(first, false)) text += ',';
      if (cell.is_string()) {
        std::string quoted = cell.get<std::string>();  // specs hold commas
        for (size_t at = 0; (at = quoted.find('"', at)) != std::string::npos; at += 2) quoted.insert(at, 1, '"');
        text += '"' + quoted + '"';
      } else if (!cell.is_null()) {
        text += cell.dump();
      }
    }
  }
  return text + "\n";
}

std::string Text(const Json& rows, BenchFormat format, const std::vector<std::pair<const char*, const char*>>& columns,
                 const std::string& legend) {
  std::string text;
  switch (format) {
    case BenchFormat::kMarkdown:
      text = Markdown(rows, columns) + "\n" + legend;
      text += fmt::format("{}; swivel {}, llama.cpp {}.\n", CpuName(), SWIVEL_VERSION, LlamaBuild());
      for (const Json& row : rows) {
        if (row["failure"].is_string())
          text += fmt::format("{}: not measured: {}\n", row["kv"].get<std::string>(), Shown("", row["failure"]));
      }
      break;
    case BenchFormat::kCsv:
      text = Csv(rows);
      break;
    case BenchFormat::kJson:
      for (const Json& row : rows) text += (text.empty() ? "[\n  " : ",\n  ") + Dump(row);
      text += text.empty() ? "[]\n" : "\n]\n";
      break;
    case BenchFormat::kJsonLines:
      for (const Json& row : rows) text += Dump(row) + "\n";
      break;
  }
  return text;
}

Json Failure(const std::string& text) { return text.empty() ? Json() : Json(text); }

}  // namespace

std::string BenchText(const std::vector<OpRow>& rows, const BenchOpsOptions& options, BenchFormat format) {
  Json list = Json::array();
  for (const OpRow& row : rows) {
    list.push_back({{"kv", row.kv},
                    {"op", row.size.op},
                    {"n_q", row.size.num_queries},
                    {"n_kv", row.size.num_cells},
                    {"d", options.head_width},
                    {"n_head", options.num_heads},
                    {"n_head_kv", options.num_kv_heads},
                    {"threads", options.threads},
                    {"target", OrNull(row.target)},
                    {"ms", OrNull(row.ms)},
                    {"ms_min", OrNull(row.ms_min)},
                    {"ms_max", OrNull(row.ms_max)},
                    {"ms_p10", OrNull(row.ms_p10)},
                    {"ms_p90", OrNull(row.ms_p90)},
                    {"calls", row.calls},
                    {"gbps", OrNull(row.gbps)},
                    {"share_of_stream", OrNull(row.share_of_stream)},
                    {"ratio_to_stock_f16", OrNull(row.ratio.f16)},
                    {"ratio_to_stock_q8_0", OrNull(row.ratio.q8_0)},
                    {"ratio_to_stock_q4_0", OrNull(row.ratio.q4_0)},
                    {"others_busy", OrNull(row.others_busy)},
                    {"failure", Failure(row.failure)}});
  }
  return Text(
      list, format,
      {{"kv", "kv"},
       {"op", "op"},
       {"n_q", "n_q"},
       {"n_kv", "n_kv"},
       {"ms", "ms"},
       {"ms_p10", "p10"},
       {"ms_p90", "p90"},
       {"calls", "calls"},
       {"gbps", "GB/s"},
       {"share_of_stream", "of stream"},
       {"ratio_to_stock_f16", "x f16"},
       {"ratio_to_stock_q8_0", "x q8_0"},
       {"ratio_to_stock_q4_0", "x q4_0"}},
      fmt::format("Attention of {} heads on {} KV heads of width {}, {} thread(s), {} rounds, target {}. GB/s: bytes of the cache / time;\n"
                  "of stream: against reading memory with the same threads; x f16, q8_0, q4_0: times as fast as llama.cpp's.\n",
                  options.num_heads, options.num_kv_heads, options.head_width, options.threads, options.rounds,
                  TargetName(options.target)));
}

std::string BenchText(const std::vector<ModelRow>& rows, const BenchModelOptions& options, BenchFormat format) {
  Json list = Json::array();
  for (const ModelRow& row : rows) {
    list.push_back({{"kv", row.kv},
                    {"test", row.test},
                    {"depth", row.depth},
                    {"n", row.num_tokens},
                    {"tps", OrNull(row.tps)},
                    {"tps_min", OrNull(row.tps_min)},
                    {"tps_max", OrNull(row.tps_max)},
                    {"tps_sd", OrNull(row.tps_sd)},
                    {"ratio_to_stock_f16", OrNull(row.ratio.f16)},
                    {"ratio_to_stock_q8_0", OrNull(row.ratio.q8_0)},
                    {"ratio_to_stock_q4_0", OrNull(row.ratio.q4_0)},
                    {"threads", options.threads},
                    {"target", OrNull(row.target)},
                    {"peak_rss_bytes", OrNull(row.peak_rss_bytes)},
                    {"others_busy", OrNull(row.others_busy)},
                    {"failure", Failure(row.failure)}});
  }
  return Text(list, format,
              {{"kv", "kv"},
               {"test", "test"},
               {"depth", "depth"},
               {"tps", "t/s"},
               {"tps_min", "min"},
               {"tps_max", "max"},
               {"ratio_to_stock_f16", "x f16"},
               {"ratio_to_stock_q8_0", "x q8_0"},
               {"ratio_to_stock_q4_0", "x q4_0"},
               {"peak_rss_bytes", "RSS MiB"}},
              fmt::format("{}: tokens a second behind `depth` others, median of {} round(s), a process each; {} thread(s), target {}.\n",
                          options.model, options.rounds, options.threads, TargetName(options.target)));
}

}  // namespace swivel
