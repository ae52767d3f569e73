// `swivel distortion`: how far codecs move vectors, and how long they take, without a model.
#include "eval/distortion.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/cpu.h"
#include "cli/commands.h"
#include "cli/distortion_text.h"
#include "cli/lists.h"
#include "eval/distortion_html.h"
#include "eval/output_file.h"
#include "eval/progress.h"
#include "eval/vector_set.h"

namespace swivel::cli {
namespace {

// With it the standard error of the mse of every codec at width 128 is below 0.3 % of the mse on Gaussian vectors.
constexpr size_t kDefaultVectors = 32768;

struct Arguments {
  std::string codecs = "all", widths, side = "k", scale, format = "md", html;
  std::vector<std::string> sources = {"gaussian"};
  size_t vectors = 0;  // 0: kDefaultVectors
  uint64_t seed = 1;
  bool no_time = false;
  int threads = 1;
};

StatusOr<std::vector<const Codec*>> Codecs(const std::string& list) {
  std::vector<const Codec*> codecs;
  if (list == "all") {
    codecs.assign(AllCodecs().begin(), AllCodecs().end());
    return codecs;
  }
  for (const std::string& name : SplitList(list)) {
    StatusOr<const Codec*> codec = FindCodec(name);
    if (!codec.ok()) return Status::Invalid(fmt::format("--codecs {}: {}, or all", list, codec.status().message()));
    if (std::find(codecs.begin(), codecs.end(), *codec) == codecs.end()) codecs.push_back(*codec);
  }
  return codecs;
}

StatusOr<std::vector<int>> Widths(const std::string& list) {
  StatusOr<std::vector<int>> given = Integers("--head-dim", list, ',', 1, kMaxHeadWidth);
  if (!given.ok()) return given.status();
  std::vector<int> widths;
  for (const int width : *given) {
    if (std::find(widths.begin(), widths.end(), width) == widths.end()) widths.push_back(width);
  }
  return widths;
}

bool IsFile(const std::string& name) {
  std::error_code error;
  return name.ends_with(".npy") || name.find('/') != std::string::npos || std::filesystem::is_regular_file(name, error);
}

// Files are read here, so that a wrong one costs no measurement first; vectors that are made up are made when their turn comes.
struct Work {
  int width = 0;
  SourceKind kind = SourceKind::kGaussian;
  std::shared_ptr<VectorSet> file;
};

Status AddFile(const Arguments& arguments, const std::string& path, const std::vector<int>& widths, std::vector<Work>* work) {
  StatusOr<VectorSet> set = LoadVectors(path, arguments.vectors > 0 ? arguments.vectors : kDefaultVectors);
  if (!set.ok()) return Status(set.status().code(), "--source: " + set.status().message());
  if (!arguments.widths.empty() && std::find(widths.begin(), widths.end(), set->width) == widths.end()) {
    return Status::Invalid(
        fmt::format("--source: '{}' has vectors of {} values, which --head-dim {} leaves out", path, set->width, arguments.widths));
  }
  if (set->zero_rows > 0) {
    fmt::print(stderr, "swivel distortion: {}: {} zero vectors left out: they have no relative error\n", path, set->zero_rows);
  }
  if (set->rows() + set->zero_rows < set->file_rows) {
    fmt::print(stderr, "swivel distortion: {}: the first {} of {} vectors are measured (--vectors)\n", path, set->rows() + set->zero_rows,
               set->file_rows);
  }
  work->push_back({set->width, SourceKind::kGaussian, std::make_shared<VectorSet>(std::move(*set))});
  return {};
}

StatusOr<std::vector<Work>> Plan(const Arguments& arguments) {
  StatusOr<std::vector<int>> widths = Widths(arguments.widths.empty() ? "128" : arguments.widths);
  if (!widths.ok()) return widths.status();
  std::vector<std::string> names;
  for (const std::string& given : arguments.sources) {
    std::error_code error;
    const bool whole = std::filesystem::is_regular_file(given, error);  // a name may hold a comma
    for (const std::string& name : whole ? std::vector<std::string>{given} : SplitList(given)) {
      if (std::find(names.begin(), names.end(), name) == names.end()) names.push_back(name);
    }
  }
  std::vector<Work> work;
  for (const std::string& name : names) {
    if (StatusOr<SourceKind> kind = FindSource(name); kind.ok()) {
      for (const int width : *widths) work.push_back({width, *kind, nullptr});
    } else if (!IsFile(name)) {
      return Status::Invalid("--source: " + kind.status().message());
    } else if (Status status = AddFile(arguments, name, *widths, &work); !status.ok()) {
      return status;
    }
  }
  return work;
}

Status Distortion(const Arguments& arguments) {
  StatusOr<std::vector<const Codec*>> codecs = Codecs(arguments.codecs);
  if (!codecs.ok()) return codecs.status();
  StatusOr<Target> target = ChooseTarget();
  if (!target.ok()) return target.status();
  if (!arguments.html.empty()) {
    if (Status status = CheckWritable(arguments.html); !status.ok()) return status;
  }
  StatusOr<std::vector<Work>> plan = Plan(arguments);
  if (!plan.ok()) return plan.status();

  DistortionOptions options;
  options.side = arguments.side == "k" ? Side::kKey : Side::kValue;
  for (const ScaleMode mode : {ScaleMode::kMatched, ScaleMode::kUnbiased, ScaleMode::kLeastSquares}) {
    if (arguments.scale == ScaleModeName(mode)) options.scale = mode;
  }
  options.target = *target;
  options.time = !arguments.no_time;
  options.threads = arguments.threads;
  Progress progress;
  progress.Begin(static_cast<double>(plan->size() * codecs->size()));
  std::vector<DistortionRow> rows;
  for (const Work& work : *plan) {
    const VectorSet made =
        work.file ? VectorSet()
                  : MakeVectors(work.kind, work.width, arguments.vectors > 0 ? arguments.vectors : kDefaultVectors, arguments.seed);
    const VectorSet& set = work.file ? *work.file : made;
    progress.Advance(0, fmt::format("{}, d = {}: queries", set.source, set.width));
    const DistortionMeter meter(set, arguments.seed);
    for (const Codec* codec : *codecs) {
      progress.Advance(0, fmt::format("{}, d = {}: {}", set.source, set.width, codec->name));
      rows.push_back(meter.Measure(*codec, options));
      progress.Advance(1, "");
    }
  }
  progress.Clear();

  if (!arguments.html.empty()) {
    if (Status status = WriteFile(arguments.html, DistortionHtml(rows, *target)); !status.ok()) return status;
  }
  const std::string text = arguments.format == "json"  ? DistortionJson(rows, *target)
                           : arguments.format == "csv" ? DistortionCsv(rows, *target)
                                                       : DistortionMarkdown(rows, *target);
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    return Status::Io("cannot write to stdout");
  }
  if (std::none_of(rows.begin(), rows.end(), [](const DistortionRow& row) { return row.mse.has_value(); })) {
    return Status::Unsupported("nothing was measured: " + rows.front().reason);
  }
  return {};
}

int RunDistortion(const Arguments& arguments) {
  const Status status = Distortion(arguments);
  if (!status.ok()) fmt::print(stderr, "swivel distortion: error: {}\n", status.message());
  return status.ok() ? 0 : 1;
}

}  // namespace

void AddDistortion(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<Arguments>();
  CLI::App* command = app.add_subcommand(
      "distortion", "How far codecs move vectors: squared error, inner products, a softmax with needles, and the time of a vector");
  command->add_option("--codecs", arguments->codecs, "Codecs, a list (swivel codecs names them), or all")->capture_default_str();
  command->add_option("--head-dim", arguments->widths, "Widths, a list [128; of a file its own]");
  command->add_option("--source", arguments->sources, "gaussian, sparse, heavy, biased or FILE.npy, a list")->capture_default_str();
  command
      ->add_option("--vectors", arguments->vectors, fmt::format("Vectors of each source; of a file its first ones [{}]", kDefaultVectors))
      ->check(CLI::Range(1, 1 << 20));
  command->add_option("--seed", arguments->seed, "Seed of vectors and queries")->capture_default_str()->check(CLI::NonNegativeNumber);
  command->add_option("--side", arguments->side, "k or v: store them as keys or as values")
      ->capture_default_str()
      ->check(CLI::IsMember({"k", "v"}));
  command
      ->add_option("--scale", arguments->scale,
                   "Scale of a row, for codecs that have the choice: matched, unbiased or ls [what a cache takes]")
      ->check(CLI::IsMember({"matched", "unbiased", "ls"}));
  command->add_flag("--no-time", arguments->no_time, "Do not measure times: the output then depends on the arguments only");
  command
      ->add_option("-t,--threads", arguments->threads,
                   "Threads that encode at once while that is timed; the time of a vector is that of the whole over all their vectors")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command->add_option("-o,--output", arguments->format, "md, csv or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"md", "csv", "json"}));
  command->add_option("--html", arguments->html, "Also write a page with charts of rate against distortion to this file");
  command->footer(
      "A file is a matrix of NumPy's .npy format, a vector a row, float16, float32 or float64; `swivel capture` makes such files from a "
      "model.\n"
      "A codec that cannot serve a width has a row that says why.\n\n"
      "Examples:\n"
      "  swivel distortion                                            # all codecs, Gaussian vectors of 128 values\n"
      "  swivel distortion --head-dim 64,80,96,128,256 --source gaussian,sparse,heavy,biased --html distortion.html\n"
      "  swivel distortion --codecs turbo3,q4_0_rot --scale unbiased --source layer0_head0_k.npy -o json\n"
      "docs/evaluation.md defines every figure.");
  command->callback([arguments, exit_code] { *exit_code = RunDistortion(*arguments); });
}

}  // namespace swivel::cli
