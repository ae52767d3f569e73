// swivel codecs: the codec list as a table.
#include <fmt/core.h>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "cli/size_table.h"
#include "codec/codec.h"

namespace swivel::cli {
namespace {

struct Options {
  std::vector<int> widths = {64, 128, 256};
  std::string output = "md";
};

// One name when K and V are stored in the same basis.
std::string FrameNames(const Codec& codec) {
  const std::string key = FrameName(codec.frame(Side::kKey)), value = FrameName(codec.frame(Side::kValue));
  return key == value ? key : "K " + key + ", V " + value;
}

std::string WidthsServed(const Codec& codec) { return fmt::format("{}..{} step {}", kMinHeadWidth, kMaxHeadWidth, codec.width_multiple); }

std::string Json(const std::vector<int>& widths) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Codec* codec : AllCodecs()) {
    nlohmann::ordered_json entry = {{"name", codec->name},
                                    {"what", codec->summary},
                                    {"code_bits", codec->code_bits},
                                    {"frame_k", FrameName(codec->frame(Side::kKey))},
                                    {"frame_v", FrameName(codec->frame(Side::kValue))},
                                    {"width_min", kMinHeadWidth},
                                    {"width_max", kMaxHeadWidth},
                                    {"width_multiple", codec->width_multiple}};
    nlohmann::ordered_json bits = nlohmann::ordered_json::object();
    for (int width : widths) {
      const bool served = CheckWidth(*codec, width).ok();
      bits[std::to_string(width)] = served ? nlohmann::ordered_json(BitsPerValue(*codec, width)) : nlohmann::ordered_json(nullptr);
    }
    entry["bits_per_value"] = bits;
    list.push_back(entry);
  }
  return list.dump(2) + "\n";
}

int Codecs(const Options& options) {
  for (int width : options.widths) {
    if (width >= 1 && width <= kMaxHeadWidth) continue;
    fmt::print(stderr, "swivel codecs: --head-dim {}: head widths from {} to {} are served\n", width, kMinHeadWidth, kMaxHeadWidth);
    return 1;
  }
  if (options.output == "json") {
    fmt::print("{}", Json(options.widths));
    return 0;
  }
  Table table;
  table.text_columns = 4;
  table.header = {"codec", "what", "frame", "head widths"};
  for (int width : options.widths) table.header.push_back(fmt::format("bits at {}", width));
  for (const Codec* codec : AllCodecs()) {
    std::vector<std::string> row = {codec->name, codec->summary, FrameNames(*codec), WidthsServed(*codec)};
    for (int width : options.widths)
      row.push_back(CheckWidth(*codec, width).ok() ? fmt::format("{:.4g}", BitsPerValue(*codec, width)) : "-");
    table.rows.push_back(row);
  }
  fmt::print("{}", options.output == "csv" ? table.Csv() : table.Markdown());
  return 0;
}

}  // namespace

void AddCodecs(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("codecs", "List the codecs and their bits per value, scales included");
  command->add_option("--head-dim", options->widths, "Head widths to compute the bits for, separated by commas (default 64,128,256)")
      ->delimiter(',');
  command->add_option("-o,--output", options->output, "md, csv or json")->check(CLI::IsMember({"md", "csv", "json"}));
  command->footer("Example: swivel codecs --head-dim 64,80,128 -o csv");
  command->callback([options, exit_code] { *exit_code = Codecs(*options); });
}

}  // namespace swivel::cli
