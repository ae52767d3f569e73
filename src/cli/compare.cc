// `swivel compare`: two saved evaluations, for people and for continuous integration.
#include "eval/compare.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "eval/text_table.h"

namespace swivel::cli {
namespace {

// Exit statuses: 1 says that a limit is exceeded, and nothing else does.
constexpr int kBeyondLimit = 1, kBadInput = 2;

struct CompareArguments {
  std::string a, b, kv, with;
  std::vector<std::string> limits;
};

int Fail(const std::string& message) {
  fmt::print(stderr, "swivel compare: error: {}\n", message);
  return kBadInput;
}

std::string NumberCell(const std::optional<double>& value, double unit = 1) { return value ? KldText(*value * unit) : std::string("-"); }

std::string VerdictCell(const PairedDifference& difference) {
  const std::string word = VerdictName(difference.verdict);
  return difference.ratio > 0 ? fmt::format("{} (x{:.3g})", word, difference.ratio) : word;
}

std::string IntervalCell(const PairedDifference& difference) {
  if (difference.blocks < kLeastBlocks) return "-";
  return fmt::format("{:+.2g} … {:+.2g}", difference.low, difference.high);
}

std::string TableOf(const std::vector<ComparedCache>& compared) {
  std::vector<TextRow> rows = {{"kv", "KLD A", "KLD B", "B is", "B - A, 99 %", "decode A", "decode B", "B is", "top-1 A", "top-1 B"}};
  for (const ComparedCache& cache : compared) {
    const std::string name = cache.a->kv == cache.b->kv ? cache.a->kv : cache.a->kv + " / " + cache.b->kv;
    rows.push_back({name, NumberCell(cache.a->kld), NumberCell(cache.b->kld), VerdictCell(cache.kld), IntervalCell(cache.kld),
                    NumberCell(cache.a->decode_kld), NumberCell(cache.b->decode_kld), VerdictCell(cache.decode_kld),
                    NumberCell(cache.a->top1, 100), NumberCell(cache.b->top1, 100)});
  }
  return TextTable(rows);
}

int RunCompare(const CompareArguments& arguments) {
  std::vector<Limit> limits;
  for (const std::string& text : arguments.limits) {
    StatusOr<Limit> limit = ParseLimit(text);
    if (!limit.ok()) return Fail(limit.status().message());
    limits.push_back(*limit);
  }
  if (arguments.kv.empty() && !arguments.with.empty()) return Fail("--with names a cache of B for the one of A that --kv names");
  StatusOr<SavedEvaluation> a = ReadEvaluation(arguments.a), b = ReadEvaluation(arguments.b);
  if (!a.ok()) return Fail(a.status().message());
  if (!b.ok()) return Fail(b.status().message());
  StatusOr<std::vector<ComparedCache>> compared = Compare(*a, *b, arguments.kv, arguments.with);
  if (!compared.ok()) return Fail(compared.status().message());
  fmt::print("{}\nA {}: {} on {}, swivel {}.\nB {}: {} on {}, swivel {}.\n", TableOf(*compared), a->path, a->model, a->text, a->version,
             b->path, b->model, b->text, b->version);
  const std::string why_not = WhyNotPaired(*a, *b);
  if (!why_not.empty()) fmt::print("Not paired: {}. Figures stand beside each other, nothing says whether they differ.\n", why_not);
  if (a->model != b->model) fmt::print("Note: the models have different names.\n");
  if (a->weights != b->weights) fmt::print("Note: weights {} and {}.\n", a->weights, b->weights);
  if (arguments.kv.empty()) {
    for (const auto& [saved, other] : {std::pair(&*a, &*b), std::pair(&*b, &*a)}) {
      for (const SavedCache& cache : saved->caches) {
        if (other->Find(cache.kv) == nullptr) fmt::print("Only in {}: {}.\n", saved->path, cache.kv);
      }
    }
  }
  if (limits.empty()) return 0;

  if (!why_not.empty()) return Fail("a limit needs two evaluations of the same tokens: " + why_not);
  for (const Limit& limit : limits) {
    if (limit.figure == "decode_kld" && a->decode_tokens != b->decode_tokens) {
      return Fail(fmt::format("a limit on decode_kld needs the same tokens decoded: {} and {}", a->decode_tokens, b->decode_tokens));
    }
  }
  bool beyond = false;
  for (const ComparedCache& cache : *compared) {
    for (const Limit& limit : limits) {
      const std::optional<double> excess = Excess(cache, limit.figure);
      // What was measured in A and is gone in B must not pass.
      const bool fails = !excess || *excess > limit.most;
      beyond |= fails;
      if (!excess) {
        fmt::print("BEYOND {}: {} was not measured.\n", cache.b->kv, limit.figure);
      } else {
        fmt::print("{} {}: {} {:+.4g}, limit {:g}.\n", fails ? "BEYOND" : "within", cache.b->kv, limit.figure, *excess, limit.most);
      }
    }
  }
  if (arguments.kv.empty()) {
    for (const SavedCache& cache : a->caches) {
      if (!cache.kld || b->Find(cache.kv) != nullptr) continue;
      fmt::print("BEYOND {}: not in B.\n", cache.kv);
      beyond = true;
    }
  }
  return beyond ? kBeyondLimit : 0;
}

}  // namespace

void AddCompare(CLI::App& app, int* exit_code) {
  auto arguments = std::make_shared<CompareArguments>();
  CLI::App* command = app.add_subcommand("compare", "Two saved evaluations beside each other: what changed, and is it too much");
  command->add_option("A", arguments->a, "What swivel eval --json wrote: the measure")->required();
  command->add_option("B", arguments->b, "Another one: what is judged")->required();
  command->add_option(
      "--limit", arguments->limits,
      "FIGURE=NUMBER: exit status 1 when a cache of B exceeds A by more. kld, kld_p99, kld_max, decode_kld in nats, ppl (of ln "
      "PPL), top1 (share that may be lost). Several are allowed");
  command->add_option("--kv", arguments->kv, "Only this cache of A");
  command->add_option("--with", arguments->with, "Compare it with this cache of B instead of the one of the same name");
  command->footer(
      "Exit status: 0, or 1 beyond a limit, or 2 when the files cannot be read or a limit cannot be judged.\n\n"
      "Examples:\n"
      "  swivel compare before.json after.json\n"
      "  swivel compare main.json branch.json --limit kld=0.001 --limit decode_kld=0.002\n"
      "  swivel compare a.json a.json --kv q4_0 --with turbo4");
  command->callback([arguments, exit_code] { *exit_code = RunCompare(*arguments); });
}

}  // namespace swivel::cli
