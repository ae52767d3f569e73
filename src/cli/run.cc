// `swivel run`: generate text with a compressed cache and say what it saved.
#include <CLI/CLI.hpp>

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "cache/spec.h"
#include "cli/commands.h"
#include "eval/output_file.h"
#include "eval/system_info.h"
#include "llama/cache_choice.h"
#include "llama/context.h"
#include "llama/layout.h"
#include "llama/log.h"
#include "llama/model.h"
#include "llama/plugin.h"
#include "llama/sampler.h"

namespace swivel::cli {
namespace {

struct RunArguments {
  std::string model, prompt, prompt_file, kv = kDefaultSpec;
  int new_tokens = 128, context = 0, threads = DefaultThreads();
  SamplerOptions sampling;
  bool stock = false, chat = false, verbose = false, kv_given = false;
};

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// Tokens arrive one at a time and may end inside a character; the terminal puts the bytes together.
Status Print(const std::string& text) {
  size_t done = 0;
  while (done < text.size()) {
    const ssize_t count = write(STDOUT_FILENO, text.data() + done, text.size() - done);
    if (count <= 0) return Status::Io("cannot write to stdout");
    done += static_cast<size_t>(count);
  }
  return {};
}

StatusOr<CacheChoice> ChooseCache(const RunArguments& arguments) {
  StatusOr<CacheChoice> cache = ParseCacheChoice(arguments.stock && !arguments.kv_given ? "f16" : arguments.kv);
  if (cache.ok() && arguments.stock && !cache->stock) {
    return Status::Invalid(fmt::format("--stock and --kv {} exclude each other: that is a Swivel cache", arguments.kv));
  }
  return cache;
}

// Prompt, generation and what they cost.
struct Timing {
  size_t prompt_tokens = 0, new_tokens = 0;
  double prompt_seconds = 0, decode_seconds = 0;
};

Status Generate(Context& context, const std::vector<Token>& prompt, const RunArguments& arguments, int limit, Timing* timing) {
  constexpr int kBatch = 512;
  const Model& model = context.model();
  const int length = static_cast<int>(prompt.size());
  auto begin = std::chrono::steady_clock::now();
  for (int position = 0; position < length; position += kBatch) {
    const int count = std::min(kBatch, length - position);
    const std::span<const Token> batch(prompt.data() + position, static_cast<size_t>(count));
    if (Status status = context.Decode(batch, position, position + count == length ? 1 : 0); !status.ok()) return status;
  }
  (void)context.Logits(0);
  timing->prompt_tokens = prompt.size();
  timing->prompt_seconds = SecondsSince(begin);

  Sampler sampler(arguments.sampling);
  begin = std::chrono::steady_clock::now();
  for (int i = 0; i < limit; ++i) {
    const Token token = sampler.Next(context);
    if (model.EndsGeneration(token)) break;
    if (Status status = Print(model.Piece(token)); !status.ok()) return status;
    ++timing->new_tokens;
    if (i + 1 == limit) break;
    if (Status status = context.Decode({&token, 1}, length + i, 1); !status.ok()) return status;
  }
  timing->decode_seconds = SecondsSince(begin);
  return {};
}

Status Run(const RunArguments& arguments) {
  StatusOr<CacheChoice> cache = ChooseCache(arguments);
  if (!cache.ok()) return cache.status();
  if (!cache->stock) {
    if (StatusOr<std::string> plugin = FindPlugin(); !plugin.ok()) return plugin.status();
  }
  std::string text = arguments.prompt;
  if (!arguments.prompt_file.empty()) {
    StatusOr<std::string> content = ReadFile(arguments.prompt_file);
    if (!content.ok()) return Status(content.status().code(), "prompt file " + content.status().message());
    text = *content;
  }

  ModelPair models(arguments.model);
  StatusOr<Model*> loaded = models.For(*cache);
  if (!loaded.ok()) return loaded.status();
  const Model& model = **loaded;
  if (arguments.chat) {
    StatusOr<std::string> prompt = model.ChatPrompt(text);
    if (!prompt.ok()) return prompt.status();
    text = *prompt;
  }
  std::vector<Token> prompt = model.Tokenize(text, /*add_special=*/true, /*parse_special=*/arguments.chat);
  if (prompt.empty()) return Status::Invalid("the prompt is empty");
  const int length = static_cast<int>(prompt.size());
  const int context_tokens = arguments.context > 0 ? arguments.context : length + arguments.new_tokens;
  if (length >= context_tokens) {
    return Status::Invalid(fmt::format("the prompt has {} tokens and fills the context of {}; raise -c", length, context_tokens));
  }
  if (context_tokens > model.train_context()) {
    fmt::print(stderr, "swivel run: warning: a context of {} is beyond the {} tokens this model was trained on\n", context_tokens,
               model.train_context());
  }
  const int limit = std::min(arguments.new_tokens, context_tokens - length);

  ContextOptions options;
  options.context_tokens = context_tokens;
  options.threads = arguments.threads;
  StatusOr<std::unique_ptr<Context>> context = Context::Create(model, *cache, options);
  if (!context.ok()) return context.status();
  Timing timing;
  if (Status status = Generate(**context, prompt, arguments, limit, &timing); !status.ok()) return status;
  if (Status status = Print("\n"); !status.ok()) return status;
  const std::optional<int64_t> peak = PeakRssBytes();  // before the probe below adds to it

  if (limit < arguments.new_tokens && static_cast<int>(timing.new_tokens) == limit) {
    fmt::print(stderr, "swivel run: the context of {} tokens is full; -c sets a larger one\n", context_tokens);
  }
  constexpr double kMiB = 1 << 20;
  std::string memory = "size unknown";
  CacheLayout layout;
  if (cache->stock) {
    StatusOr<CacheLayout> probed = ProbeLayout(model, context_tokens, arguments.threads);
    if (probed.ok()) layout = *probed;
  }
  const CacheUse use = (*context)->Use(layout);
  if (use.cache_bytes && use.f16_bytes) {
    const double bytes = static_cast<double>(*use.cache_bytes), f16_bytes = static_cast<double>(*use.f16_bytes);
    memory = fmt::format("{:.1f} MiB for {} tokens where f16 takes {:.1f} ({:.2f} times as much)", bytes / kMiB,
                         (*context)->capacity_tokens(), f16_bytes / kMiB, f16_bytes / bytes);
  }
  fmt::print(stderr, "\ncache   {}: {}", cache->name, memory);
  if (use.bits_per_value) fmt::print(stderr, ", {:.4g} bits a value", *use.bits_per_value);
  fmt::print(stderr, "\nprompt  {} tokens, {:.1f} tok/s\n", timing.prompt_tokens,
             static_cast<double>(timing.prompt_tokens) / std::max(timing.prompt_seconds, 1e-9));
  if (timing.new_tokens > 1) {
    fmt::print(stderr, "decode  {} tokens, {:.1f} tok/s\n", timing.new_tokens,
               static_cast<double>(timing.new_tokens - 1) / std::max(timing.decode_seconds, 1e-9));
  }
  if (peak) fmt::print(stderr, "peak    {:.0f} MiB resident, weights included\n", static_cast<double>(*peak) / kMiB);
  return {};
}

}  // namespace

void AddRun(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<RunArguments>();
  CLI::App* command = app.add_subcommand("run", "Generate text with a compressed cache");
  command->add_option("-m,--model", arguments->model, "GGUF file")->required();
  CLI::Option* prompt = command->add_option("-p,--prompt", arguments->prompt, "Prompt");
  command->add_option("-f,--file", arguments->prompt_file, "Read the prompt from this file")->excludes(prompt);
  command->add_option("-n,--predict", arguments->new_tokens, "Tokens to generate")->capture_default_str()->check(CLI::Range(1, 1 << 24));
  command->add_option("-c,--ctx-size", arguments->context, "Tokens the cache holds [prompt + -n]")->check(CLI::Range(1, 1 << 24));
  command->add_option("-t,--threads", arguments->threads, "Threads")->capture_default_str()->check(CLI::Range(1, 1024));
  CLI::Option* kv = command->add_option("--kv", arguments->kv, "The cache: a spec (below), or f16, q8_0, q4_0 for llama.cpp's own")
                        ->capture_default_str();
  command->add_flag("--stock", arguments->stock, "llama.cpp's own f16 cache (or the stock type that --kv names), without the plugin");
  command->add_option("--temp", arguments->sampling.temperature, "Temperature; 0 takes the most likely token")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 100.0));
  command->add_option("--top-k", arguments->sampling.top_k, "Sample from the k most likely tokens; 0: from all")
      ->capture_default_str()
      ->check(CLI::Range(0, 1 << 24));
  command->add_option("--top-p", arguments->sampling.top_p, "Sample from the smallest set with this probability")
      ->capture_default_str()
      ->check(CLI::Range(0.0, 1.0));
  command->add_option("--seed", arguments->sampling.seed, "Seed of the sampler, used when --temp is above 0")->capture_default_str();
  command->add_flag("--chat", arguments->chat,
                    "Put the prompt through the model's chat template as a user's message; without it the prompt is plain text");
  command->add_flag("-v,--verbose", arguments->verbose, "Show llama.cpp's log");
  command->footer(SpecHelp() +
                  "\n\nExamples:\n"
                  "  swivel run -m model.gguf -p 'The capital of France is' -n 16\n"
                  "  swivel run -m model.gguf --chat -p 'Explain rotary embeddings' --kv k=turbo4,v=turbo3 --temp 0.7 --seed 1\n"
                  "  swivel run -m model.gguf -f prompt.txt -c 32768 --stock --kv q8_0\n"
                  "The text goes to stdout; memory and speed to stderr.");
  command->callback([arguments, kv, exit_code] {
    arguments->kv_given = kv->count() > 0;
    if (arguments->prompt.empty() && arguments->prompt_file.empty()) {
      fmt::print(stderr, "swivel run: error: give a prompt with -p, or a file with -f\n");
      *exit_code = 1;
      return;
    }
    CaptureLlamaLog(arguments->verbose);
    const Status status = Run(*arguments);
    if (!status.ok()) fmt::print(stderr, "swivel run: error: {}\n", status.message());
    *exit_code = status.ok() ? 0 : 1;
  });
}

}  // namespace swivel::cli
