// swivel info: what is installed, what this machine can run, and what a model is.
#include <fmt/core.h>

#include <cstdlib>
#include <memory>
#include <nlohmann/json.hpp>
#include <set>
#include <string>

#include "base/cpu.h"
#include "base/version.h"
#include "cli/commands.h"
#include "cli/paths.h"
#include "cli/size_cache.h"
#include "gguf/header.h"
#include "gguf/shape.h"
#include "llama/model.h"

namespace swivel::cli {
namespace {

using Json = nlohmann::ordered_json;

struct Options {
  std::string model;
  std::string output = "md";
};

// Sets *failed when the environment asks for something that cannot be had.
Json Installation(bool* failed) {
  Json json;
  json["version"] = SWIVEL_VERSION;
  Json targets = Json::array();
  for (Target target : SupportedTargets()) targets.push_back(TargetName(target));
  json["targets_supported"] = targets;
  const StatusOr<Target> target = ChooseTarget();
  if (target.ok()) {
    json["target"] = TargetName(target.value());
  } else {
    json["target_error"] = target.status().message();
    *failed = true;
  }
  const char* forced = std::getenv("SWIVEL_TARGET");
  if (forced != nullptr) json["target_forced"] = forced;
  const StatusOr<std::string> plugin = PluginPath();
  if (plugin.ok()) {
    json["plugin"] = plugin.value();
  } else {
    json["plugin_error"] = plugin.status().message();
    *failed = true;
  }
  json["llama_cpp_linked"] = LlamaBuild();
  return json;
}

// "3" for one value in all layers, "1-4" for several.
std::string Range(const std::set<int>& values) {
  if (values.empty()) return "0";
  return values.size() == 1 ? std::to_string(*values.begin()) : fmt::format("{}-{}", *values.begin(), *values.rbegin());
}

Json Describe(const gguf::Header& header, const gguf::ModelShape& shape) {
  std::set<int> heads_q, heads_kv, k_width, v_width, windows;
  int windowed = 0;
  for (const gguf::CachedLayer& layer : shape.layers) {
    heads_q.insert(layer.heads_q);
    heads_kv.insert(layer.heads_kv);
    k_width.insert(layer.k_width);
    v_width.insert(layer.v_width);
    if (layer.window > 0) windows.insert(layer.window), ++windowed;
  }
  Json json;
  json["name"] = shape.name;
  json["architecture"] = shape.architecture;
  json["file_type"] = shape.file_type < 0 ? "not stated" : gguf::FileTypeName(shape.file_type);
  json["layers"] = shape.blocks;
  json["layers_with_cache"] = shape.layers.size();
  json["heads_q"] = Range(heads_q);
  json["heads_kv"] = Range(heads_kv);
  json["k_width"] = Range(k_width);
  json["v_width"] = Range(v_width);
  json["trained_context"] = shape.context;
  if (windowed > 0) json["sliding_window"] = fmt::format("{} tokens in {} layers", Range(windows), windowed);
  if (const std::optional<uint64_t> bytes = header.TensorBytes()) json["weights"] = FormatBytes(*bytes);
  const size_t biased = gguf::KeyBiasTensors(header).size();
  if (!header.complete && biased == 0) {
    json["k_bias"] = "unknown: " + header.end_note;
  } else {
    json["k_bias"] = biased == 0 ? "none" : fmt::format("{} tensors ({}, …)", biased, gguf::KeyBiasTensors(header)[0]);
  }
  json["notes"] = shape.notes;
  if (biased > 0) {
    json["notes"].push_back(
        "K has a bias, so its channels have large means: codecs that only rotate K (turbo, q4_0_rot) lose much on such models; "
        "use a preset (balanced), which subtracts the means, or keep K at q8_0 or more");
  }
  return json;
}

void PrintText(const Json& json) {
  for (const auto& [key, value] : json.items()) {
    if (key == "notes") continue;
    std::string text = value.is_string() ? value.get<std::string>() : value.dump();
    if (value.is_array()) {
      text.clear();
      for (const Json& item : value) text += (text.empty() ? "" : ", ") + item.get<std::string>();
    }
    std::string label = key;
    for (char& c : label) c = c == '_' ? ' ' : c;
    fmt::print("{:<20} {}\n", label, text);
  }
  if (json.contains("notes")) {
    for (const Json& note : json["notes"]) fmt::print("note: {}\n", note.get<std::string>());
  }
}

int Info(const Options& options) {
  bool failed = false;
  Json json = Installation(&failed);
  Json model;
  if (!options.model.empty()) {
    const StatusOr<gguf::Header> header = gguf::ReadModelHeader(options.model);
    if (!header.ok()) {
      fmt::print(stderr, "swivel info: {}\n", header.status().message());
      return 1;
    }
    const StatusOr<gguf::ModelShape> shape = gguf::ReadShape(header.value());
    if (!shape.ok()) {
      fmt::print(stderr, "swivel info: {}: {}\n", options.model, shape.status().message());
      return 1;
    }
    model = Describe(header.value(), shape.value());
  }
  if (options.output == "json") {
    if (!model.is_null()) json["model"] = model;
    fmt::print("{}\n", json.dump(2));
    return failed ? 1 : 0;
  }
  PrintText(json);
  if (!model.is_null()) {
    fmt::print("\n");
    PrintText(model);
  }
  return failed ? 1 : 0;
}

}  // namespace

void AddInfo(CLI::App& app, int* exit_code) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("info", "Version, processor targets, plugin, and what a model is");
  command->add_option("-m,--model", options->model, "GGUF file to describe");
  command->add_option("-o,--output", options->output, "md or json")->check(CLI::IsMember({"md", "json"}));
  command->footer(
      "Examples:\n  swivel info\n  SWIVEL_TARGET=avx2 swivel info -m model.gguf\n"
      "Exit status 1 when SWIVEL_TARGET cannot be honoured or the plugin is missing.");
  command->callback([options, exit_code] { *exit_code = Info(*options); });
}

}  // namespace swivel::cli
