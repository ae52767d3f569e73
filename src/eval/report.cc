// ReportMarkdown: what a person reads.
#include "eval/report.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include <fmt/format.h>

#include "base/version.h"

namespace swivel {
namespace {

using Row = std::vector<std::string>;
constexpr size_t kLongestName = 20;

std::string Number(double value, const char* format) {
  if (std::isnan(value)) return "NaN";
  return fmt::format(fmt::runtime(format), value);
}

template <class T>
std::string OrDash(const std::optional<T>& value, const char* format, double unit = 1) {
  return value ? Number(static_cast<double>(*value) / unit, format) : "-";
}

// Three significant digits; exponents without padding.
std::string Kld(const std::optional<double>& value) {
  if (!value) return "-";
  std::string text = Number(*value, "{:.3g}");
  const size_t exponent = text.find("e-0");
  if (exponent != std::string::npos) text.erase(exponent + 2, 1);
  return text;
}

// The error as a share of the mean: comparable down a column whose values span decades.
std::string KldWithError(const Summary& kld) {
  std::string text = Kld(kld.mean);
  if (kld.mean && kld.mean_err && *kld.mean > 0) text += fmt::format(" ±{:.0f}%", 100 * *kld.mean_err / *kld.mean);
  return text;
}

std::string Percent(const std::optional<MeanError>& share) {
  if (!share) return "-";
  std::string text = fmt::format("{:.1f}", 100 * share->mean);
  if (share->error) text += fmt::format(" ±{:.1f}", 100 * *share->error);
  return text;
}

// Columns on a screen; the only multi-byte character in these tables is ±.
size_t Width(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](unsigned char c) { return (c & 0xc0) != 0x80; }));
}

std::string Table(const std::vector<Row>& rows) {
  std::vector<size_t> widths(rows[0].size(), 0);
  for (const Row& row : rows) {
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  for (size_t r = 0; r < rows.size(); ++r) {
    for (size_t c = 0; c < widths.size(); ++c) {
      const std::string padding(widths[c] - Width(rows[r][c]), ' ');
      text += c == 0 ? fmt::format("|{}{}", rows[r][c], padding) : fmt::format("| {}{}", padding, rows[r][c]);
    }
    text += "|\n";
    if (r > 0) continue;
    for (size_t c = 0; c < widths.size(); ++c) text += fmt::format("|{:-<{}}{}", "", widths[c], c == 0 ? "" : ":");
    text += "|\n";
  }
  return text;
}

Row CacheRow(const CacheQuality& cache, const std::string& name, const Measurement* speed) {
  constexpr double kMiB = 1 << 20;
  const bool is_base = !cache.log_ppl_ratio && cache.refusal.empty();
  return {name,
          OrDash(cache.use.bits_per_value, "{:.4g}"),
          OrDash(cache.use.cache_bytes, "{:.1f}", kMiB),
          is_base ? "base" : KldWithError(cache.prefill.kld),
          Kld(cache.prefill.kld.p99),
          Percent(cache.prefill.same_top1),
          KldWithError(cache.decode.kld),
          cache.perplexity ? Number(cache.perplexity->mean, cache.perplexity->mean < 1000 ? "{:.2f}" : "{:.4g}") : "-",
          speed != nullptr ? OrDash(speed->prefill_tps, "{:.4g}") : "-",
          speed != nullptr ? OrDash(speed->decode_tps, "{:.3g}") : "-",
          speed != nullptr ? OrDash(speed->peak_rss_bytes, "{:.0f}", kMiB) : "-"};
}

std::string FloorText(const EvalReport& report) {
  const Agreement& floor = report.quality.floor;
  const Agreement& kernels = report.quality.floor_decode;
  std::string text = fmt::format("Floor: f16 against itself with half the micro-batch: KLD {}, 99 % {}, top-1 {} %.\n",
                                 Kld(floor.kld.mean), Kld(floor.kld.p99), Percent(floor.same_top1));
  if (!kernels.kld.mean) return text;
  text += fmt::format("f16 in batches against f16 token by token: KLD {}, top-1 {} %. That far llama.cpp's own two kernels differ; a cache\n"
                      "nearer to f16 than that cannot be told from it in use.\n",
                      KldWithError(kernels.kld), Percent(kernels.same_top1));
  if (report.weights != "f32" && *kernels.kld.mean > 1e-3) {
    text += "It is that much because llama.cpp rounds activations for quantized weights; --weights f32 lowers it.\n";
  }
  return text;
}

}  // namespace

std::string ReportMarkdown(const EvalReport& report) {
  std::vector<Row> rows = {{"kv", "bits", "MiB", "KLD", "99 %", "top-1 %", "decode KLD", "PPL", "pp t/s", "tg t/s", "RSS"}};
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
    rows.push_back(CacheRow(cache, name, speed));
    if (!cache.refusal.empty()) notes += fmt::format("{}: {}\n", cache.cache.name, cache.refusal);
    if (speed != nullptr && !speed->failure.empty()) notes += fmt::format("{}: speed not measured: {}\n", cache.cache.name, speed->failure);
    for (const Agreement* path : {&cache.prefill, &cache.decode}) {
      if (path->kld.invalid == 0) continue;
      notes += fmt::format("{}: NaN or infinite divergence at {} of {} positions\n", cache.cache.name, path->kld.invalid,
                           path->kld.positions);
    }
  }
  std::string text = Table(rows) + "\n" + legend + notes;
  text += fmt::format(
      "f16, q8_0, q4_0 are llama.cpp's own caches (q* rotated as it does by default). KLD: from f16, nats a token, mean ± standard error\n"
      "(blocks of {} positions); 99 %: its tail; top-1: same most likely token; decode: one token at a time, teacher-forced; MiB: the\n"
      "cache at {} tokens; pp, tg: prompt and generation, tokens a second; RSS: peak of the process in MiB, weights included.\n",
      BlockLength(report.quality.floor.kld.positions), report.options.context_tokens);
  text += FloorText(report);
  text += fmt::format("Model {} ({}, weights {}).\nText {}: {} x {} tokens, {} positions; decode {}.\n", report.model,
                      report.model_description, report.weights, report.text, report.quality.chunks, report.options.context_tokens,
                      report.quality.floor.kld.positions, report.quality.floor_decode.kld.positions);
  if (!report.speed.empty()) {
    text += fmt::format("Speed at depth {}, {} round{}, one process a cache. ", report.depth, report.rounds, report.rounds == 1 ? "" : "s");
  }
  text += fmt::format("Threads {}, {}, target {}. swivel {}, llama.cpp {}.\n", report.options.threads, report.cpu, report.target,
                      SWIVEL_VERSION, report.llama_build);
  return text;
}

}  // namespace swivel
