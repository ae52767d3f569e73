// `swivel tune`: the best cache within a limit for one model and one kind of text, as a file.
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>

#include <fmt/format.h>

#include "cli/commands.h"
#include "cli/tune_run.h"
#include "llama/log.h"
#include "llama/wide_weights.h"

namespace swivel::cli {
namespace {

int RunTune(const TuneArguments& arguments) {
  CaptureLlamaLog(arguments.verbose);
  TuneReport report;
  Status status = Tune(arguments, &report);
  // A search that ended without a choice has a table all the same.
  if (status.ok() || !report.outcome.spec.empty()) {
    const std::string text = arguments.format == "json" ? TuneJson(report) : arguments.format == "csv" ? TuneCsv(report) : TuneMarkdown(report);
    if ((std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) && status.ok()) {
      status = Status::Io("cannot write to stdout");
    }
  }
  if (!status.ok()) {
    fmt::print(stderr, "swivel tune: error: {}\n", status.message());
    return 1;
  }
  fmt::print(stderr, "swivel tune: wrote {}: try swivel eval -m {} -f TEXT --kv {}\n", arguments.output, arguments.model, arguments.output);
  return 0;
}

}  // namespace

void AddTune(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<TuneArguments>();
  CLI::App* command = app.add_subcommand("tune", "Search the best cache within a limit for a model and a kind of text, and write it to a file");
  command->add_option("-m,--model", arguments->model, "GGUF file")->required();
  command->add_option("-f,--file", arguments->text, "Text of the kind the model will see")->required();
  command->add_option("--bits", arguments->bits, "Limit: bits a packed value, side data in")->check(CLI::Range(1.0, 16.0));
  command->add_option("--bytes", arguments->bytes, "Limit: bytes of a full cache of --ctx-size tokens, such as 500M");
  command->add_option("--kld", arguments->kld, "Limit: mean KL divergence from the f16 cache in nats; the cheapest that keeps it is searched")
      ->check(CLI::Range(1e-6, 10.0));
  command->add_option("-o,--output", arguments->output, "File to write; its name ends in .toml")->required();
  command->add_option("--ctx-size", arguments->context, "Tokens of the cache whose bytes are counted [as -c]");
  command->add_option("-c", arguments->chunk_tokens, "Tokens of a chunk: as many as the contexts in use")
      ->capture_default_str()
      ->check(CLI::Range(256, 1 << 20));
  command->add_option("--chunks", arguments->chunks, "Chunks, spread over the text: a third for the search, the others to confirm")
      ->capture_default_str()
      ->check(CLI::Range(2, 10000));
  command->add_option("--minutes", arguments->minutes, "Time that the search may take, planned from the first measurements")
      ->capture_default_str()
      ->check(CLI::Range(0.1, 100000.0));
  command
      ->add_option("--weights", arguments->weights, kWeightsHelp)
      ->capture_default_str()
      ->check(CLI::IsMember({"as-is", "f16", "f32"}));
  command->add_option("--calibration", arguments->calibration, "self, or a file of swivel calibrate, made from other text than -f")
      ->capture_default_str();
  command->add_option("--state", arguments->state,
                      "Keep results in this file, for other limits too [OUTPUT.state, removed when the search is done]");
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
  command->add_option("--format", arguments->format, "What to print of the search: md, csv or json")
      ->capture_default_str()
      ->check(CLI::IsMember({"md", "csv", "json"}));
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");
  command->footer(
      "A run that was interrupted goes on where it was when the same command is given again. The preset of the same size is written unless\n"
      "something is better than it beyond the noise, on text that the search has not seen.\n\n"
      "Examples:\n"
      "  swivel tune -m model.gguf -f book.txt --bits 3.25 -o model.swivel.toml\n"
      "  swivel tune -m model.gguf -f code.txt --bytes 400M --ctx-size 32k -c 4096 -o model.swivel.toml\n"
      "  swivel tune -m model.gguf -f book.txt --kld 0.02 --weights f32 --minutes 60 --format json -o model.swivel.toml\n"
      "  swivel exec --kv model.swivel.toml llama-server -m model.gguf");
  command->callback([arguments, exit_code] { *exit_code = RunTune(*arguments); });
}

}  // namespace swivel::cli
