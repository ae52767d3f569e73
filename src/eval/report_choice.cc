#include "eval/report_choice.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "eval/command_line.h"

namespace swivel {
namespace {

bool Usable(const CacheQuality& cache) {
  return cache.refusal.empty() && cache.use.bits_per_value && cache.use.full_bytes && cache.prefill.kld.mean && cache.prefill.kld.invalid == 0 &&
         cache.decode.kld.invalid == 0;
}

std::optional<size_t> Find(const EvalReport& report, const std::string& name) {
  for (size_t i = 1; i < report.quality.caches.size(); ++i) {
    if (report.quality.caches[i].cache.name == name && Usable(report.quality.caches[i])) return i;
  }
  return std::nullopt;
}

void Add(size_t cache, const std::string& reason, std::vector<Choice>* choices) {
  for (Choice& choice : *choices) {
    if (choice.cache != cache) continue;
    choice.reasons.push_back(reason);
    return;
  }
  choices->push_back({{reason}, cache});
}

}  // namespace

std::vector<Choice> Choose(const EvalReport& report) {
  const std::vector<CacheQuality>& caches = report.quality.caches;
  std::vector<Choice> choices;
  auto smaller = [&](size_t a, size_t b) {
    const int64_t x = *caches[a].use.full_bytes, y = *caches[b].use.full_bytes;
    return x != y ? x < y : *caches[a].prefill.kld.mean < *caches[b].prefill.kld.mean;
  };
  // The smallest that its verdict does not call worse than `known`.
  auto as_good_as = [&](size_t known, const std::vector<CacheVerdict>& verdicts) {
    size_t best = known;
    for (size_t i = 1; i < caches.size(); ++i) {
      if (!Usable(caches[i]) || !smaller(i, best)) continue;
      // Both paths must hold: a cache that is good in batches alone is of no use to somebody who generates.
      const Verdict prefill = verdicts[i].prefill.verdict, decode = verdicts[i].decode.verdict;
      const bool holds = prefill == Verdict::kBetter || prefill == Verdict::kNotDistinguishable;
      if (holds && decode != Verdict::kWorse) best = i;
    }
    return best;
  };
  if (const std::optional<size_t> q8_0 = Find(report, "q8_0")) {
    const std::vector<CacheVerdict> verdicts = Judge(report.quality, *q8_0);
    const bool judged =
        std::any_of(verdicts.begin(), verdicts.end(), [](const CacheVerdict& v) { return v.prefill.verdict != Verdict::kNotMeasured; });
    const size_t best = as_good_as(*q8_0, verdicts);
    Add(best,
        !judged         ? "Too few positions to say what is as near to f16 as q8_0"
        : best == *q8_0 ? "Nothing smaller is as near to f16 as q8_0"
                        : "Smallest that is not worse than q8_0",
        &choices);
  }
  if (const std::optional<size_t> q4_0 = Find(report, "q4_0")) {
    size_t nearest = *q4_0;
    for (size_t i = 1; i < caches.size(); ++i) {
      if (!Usable(caches[i]) || *caches[i].use.full_bytes > *caches[*q4_0].use.full_bytes) continue;
      if (*caches[i].prefill.kld.mean < *caches[nearest].prefill.kld.mean) nearest = i;
    }
    Add(nearest, nearest == *q4_0 ? "Nothing in q4_0's memory is nearer to f16 than q4_0" : "Nearest to f16 in no more memory than q4_0", &choices);
    const size_t best = as_good_as(*q4_0, Judge(report.quality, *q4_0));
    if (best != *q4_0) Add(best, "Smallest that is not worse than q4_0", &choices);
  }
  std::optional<size_t> smallest;
  for (size_t i = 1; i < caches.size(); ++i) {
    if (Usable(caches[i]) && (!smallest || smaller(i, *smallest))) smallest = i;
  }
  if (smallest) Add(*smallest, "Smallest of all: weigh what it costs", &choices);
  return choices;
}

std::string ChangedTokens(const CacheQuality& cache) {
  if (!cache.prefill.same_top1) return "not measured";
  const double changed = 1 - cache.prefill.same_top1->mean;
  const double positions = static_cast<double>(cache.prefill.kld.positions);
  if (changed * positions < 0.5) return fmt::format("fewer than 1 in {:.0f}", positions);
  return fmt::format("1 in {:.0f}", std::round(1 / changed));
}

std::string UseCommand(const EvalReport& report, const CacheQuality& cache) {
  const std::string& name = cache.cache.name;
  if (cache.cache.stock) {
    const std::string type = name.starts_with("stock:") ? name.substr(6) : name;
    return fmt::format("llama-server -m {} -fa on -ctk {} -ctv {}", ShellQuote(report.model), type, type);
  }
  // As it was named, which is shorter than what a preset stands for.
  const std::string kv = name.starts_with("swivel:") ? name.substr(7) : name;
  return fmt::format("swivel exec llama-server -m {} --kv {}", ShellQuote(report.model), ShellQuote(kv));
}

}  // namespace swivel
