// ReportMarkdown: what a person reads.
#include "eval/report.h"

#include <fmt/format.h>

#include <string>
#include <vector>

#include "base/version.h"
#include "eval/text_table.h"

namespace swivel {
namespace {

constexpr size_t kLongestName = 20;

TextRow CacheRow(const CacheQuality& cache, const std::string& name, const Measurement* speed) {
  constexpr double kMiB = 1 << 20;
  const bool is_base = !cache.log_ppl_ratio && cache.refusal.empty();
  return {name,
          OrDash(cache.use.bits_per_value, "{:.4g}"),
          OrDash(cache.use.full_bytes, "{:.1f}", kMiB),
          is_base ? "base" : KldWithErrorText(cache.prefill.kld),
          KldText(cache.prefill.kld.p99),
          PercentText(cache.prefill.same_top1),
          KldWithErrorText(cache.decode.kld),
          cache.perplexity ? NumberText(cache.perplexity->mean, cache.perplexity->mean < 1000 ? "{:.2f}" : "{:.4g}") : "-",
          speed != nullptr ? OrDash(speed->prefill_tps, "{:.4g}") : "-",
          speed != nullptr ? OrDash(speed->decode_tps, "{:.3g}") : "-",
          speed != nullptr ? OrDash(speed->peak_rss_bytes, "{:.0f}", kMiB) : "-"};
}

std::string FloorText(const EvalReport& report) {
  const Agreement& floor = report.quality.floor;
  const Agreement& kernels = report.quality.floor_decode;
  std::string text = fmt::format("Floor: f16 against itself with half the micro-batch: KLD {}, 99 % {}, top-1 {} %.\n",
                                 KldText(floor.kld.mean), KldText(floor.kld.p99), PercentText(floor.same_top1));
  // Swivel's kernels are not llama.cpp's: with quantized weights a last bit flips the rounding of an activation (docs/evaluation.md).
  const bool quantized = report.weights == "as-is" && !report.model_description.ends_with("F32") && !report.model_description.ends_with("F16");
  if (quantized) {
    text +=
        "The weights are quantized and as they are: by that alone any two kernels are some .004 apart, which is in the rows of\n"
        "Swivel's caches (a row swivel:f16 shows how much) and not in this floor. --weights f16 takes it away.\n";
  }
  // llama.cpp's kernel for batches begins at 64 queries.
  if (!kernels.kld.mean || kernels.kld.positions < 64) return text;
  text += fmt::format(
      "f16 in batches against f16 token by token: KLD {}, top-1 {} %. That far llama.cpp's own two kernels differ; a cache\n"
      "nearer to f16 than that cannot be told from it in use.\n",
      KldWithErrorText(kernels.kld), PercentText(kernels.same_top1));
  return text;
}

}  // namespace

void SetVerdicts(EvalReport* report) {
  size_t reference = 0;
  for (size_t i = 1; i < report->quality.caches.size(); ++i) {
    if (report->quality.caches[i].cache.name == report->reference) reference = i;
  }
  report->verdicts = Judge(report->quality, reference);
}

std::string ReportMarkdown(const EvalReport& report) {
  std::vector<TextRow> rows = {{"kv", "bits", "MiB", "KLD", "99 %", "top-1 %", "decode KLD", "PPL", "pp t/s", "tg t/s", "RSS"}};
  std::vector<std::string> names;
  std::string legend;
  std::string notes;
  int num_long = 0;
  for (size_t i = 0; i < report.quality.caches.size(); ++i) {
    const CacheQuality& cache = report.quality.caches[i];
    const Measurement* speed = i < report.speed.size() ? &report.speed[i] : nullptr;
    std::string name = cache.cache.name;
    if (name.size() > kLongestName) {
      legend += fmt::format("#{} is {}\n", ++num_long, name);
      name = fmt::format("#{}", num_long);
    }
    names.push_back(name);
    rows.push_back(CacheRow(cache, name, speed));
    if (!cache.refusal.empty()) notes += fmt::format("{}: {}\n", cache.cache.name, cache.refusal);
    if (speed != nullptr && !speed->failure.empty()) notes += fmt::format("{}: speed not measured: {}\n", cache.cache.name, speed->failure);
  }
  std::string text = FloorText(report) + "\n" + TextTable(rows) + "\n" + legend + notes;
  text += fmt::format(
      "f16, q8_0, q4_0 are llama.cpp's own caches (q* rotated as it does by default). KLD: from f16, nats a token, mean ± standard error\n"
      "(blocks of {} positions); 99 %: its tail; top-1: same most likely token; decode: one token at a time, teacher-forced; bits: of a\n"
      "packed value; MiB: of {} tokens, rows that are kept exact included; pp, tg: prompt and generation, tokens a second; RSS: peak of\n"
      "the process in MiB, weights included.\n\n",
      BlockLength(report.quality.positions()), report.options.context_tokens);
  text += DetailsMarkdown(report, names) + SensitivityText(report.sensitivity) + ChecksText(report);
  text +=
      fmt::format("Model {} ({}, weights {}).\nText {}: {} x {} tokens, {} positions; decode {}; prompts in micro-batches of {}.\n",
                  report.model, report.model_description, report.weights, report.text, report.quality.chunks, report.options.context_tokens,
                  report.quality.positions(), report.quality.floor_decode.kld.positions, report.options.micro_batch);
  if (!report.speed.empty()) {
    text += fmt::format("Speed at depth {}, {} round{}, one process a cache. ", report.depth, report.rounds, report.rounds == 1 ? "" : "s");
  }
  text += fmt::format("Threads {}, {}, target {}. swivel {}, llama.cpp {}.\n", report.options.threads, report.cpu, report.target,
                      SWIVEL_VERSION, report.llama_build);
  return text;
}

}  // namespace swivel
