#include "eval/checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <sstream>

#include "cache/spec.h"

namespace swivel {
namespace {

// A fault doubles a divergence; kernels that round differently do not.
constexpr double kSuspiciousRatio = 2;
// More than this share of exact rows, and figures are no longer those of the packed ones.
constexpr double kMostlyExact = 0.3;

double MeanOr0(const Agreement& agreement) { return agreement.kld.mean.value_or(0); }

// Counters of a policy begin with its key: window_rows, sinks_rows.
bool Counts(const std::string& counter, const std::string& key) { return counter == key || counter.starts_with(key + "_"); }

// Of the tokens before an average scored position, the share that a staged cache keeps exact: window, half of the group that is being filled.
double ExactShare(const QualityOptions& options, const CacheQuality& cache) {
  const StatusOr<CacheSpec> spec = cache.cache.stock ? Status::NotFound("") : ParseSpec(cache.cache.spec);
  if (!spec.ok() || !spec.value().Staged()) return 0;
  const double before = (options.first_scored() + options.context_tokens) / 2.0;
  if (spec.value().SelfCalibrated() && before < spec.value().SelfTokens(0, options.context_tokens)) return 1;
  return std::min(1.0, (spec.value().window + kGroupTokens / 2) / before);
}

}  // namespace

std::vector<CacheVerdict> Judge(const QualityReport& report, size_t reference) {
  std::vector<CacheVerdict> verdicts(report.caches.size());
  if (reference == 0 || reference >= report.caches.size()) return verdicts;
  const CacheQuality& other = report.caches[reference];
  for (size_t i = 1; i < report.caches.size(); ++i) {
    if (i == reference) continue;
    const CacheQuality& cache = report.caches[i];
    verdicts[i].prefill =
        ComparePaired(cache.prefill.series.kld, other.prefill.series.kld, other.prefill.series.runs, MeanOr0(report.floor));
    verdicts[i].decode = ComparePaired(cache.decode.series.kld, other.decode.series.kld, other.decode.series.runs, MeanOr0(report.floor));
  }
  return verdicts;
}

std::vector<PolicyUse> PoliciesOf(const CacheQuality& cache) {
  // These say how values are stored, which the bytes and the divergences show.
  constexpr std::array<const char*, 11> kFormats = {"k",         "v",      "scale",       "k_scale", "v_scale", "boundary",
                                                    "transform", "halves", "calibration", "store",   "shrink"};
  std::vector<PolicyUse> policies;
  std::istringstream pieces(cache.cache.spec);
  for (std::string piece; std::getline(pieces, piece, ',');) {
    const std::string key = piece.substr(0, piece.find('='));
    const std::string value = piece.substr(std::min(piece.size(), key.size() + 1));
    if (value == "off" || value == "0" || value == "none") continue;
    if (key == piece || std::find(kFormats.begin(), kFormats.end(), key) != kFormats.end()) continue;
    PolicyUse use;
    use.key = piece;
    for (const auto& [name, count] : cache.counters) {
      if (Counts(name, key)) use.acted = use.acted.value_or(0) + count;
    }
    policies.push_back(std::move(use));
  }
  return policies;
}

PairedDifference DecodeAgainstPrefill(const QualityReport& report, const QualityOptions& options, const CacheQuality& cache) {
  const std::vector<float>& decode = cache.decode.series.kld;
  const std::vector<float>& prefill = cache.prefill.series.kld;
  if (decode.empty() || cache.prefill.series.runs.empty()) return {};
  // Decoded: the last positions of the last chunk; scored in prefill: the same but for the very last.
  const size_t length = cache.prefill.series.runs.back();
  const size_t shared = std::min(decode.size() - 1, length);
  const size_t skipped = decode.size() - 1 - shared;
  const std::array<size_t, 1> runs = {shared};
  if (static_cast<size_t>(options.context_tokens - 1 - options.first_scored()) != length) return {};
  return ComparePaired(std::span(decode).subspan(skipped, shared), std::span(prefill).last(shared), runs, MeanOr0(report.floor_decode));
}

std::vector<std::string> Warnings(const QualityReport& report, const QualityOptions& options, const CacheQuality& cache) {
  std::vector<std::string> warnings;
  for (const auto& [path, name] :
       {std::pair(&cache.prefill, "prefill"), std::pair(&cache.decode, "decode"), std::pair(&cache.decode4, "decode, batches of 4")}) {
    if (path->kld.invalid == 0) continue;
    warnings.push_back(fmt::format("NaN or infinite divergence at {} of {} positions ({})", path->kld.invalid, path->kld.positions, name));
  }
  if (!cache.cache.stock && !cache.cache.spec.empty() && !cache.counters.empty()) {
    for (const char* name : {"set_rows", "flash_attention"}) {
      const auto found = cache.counters.find(name);
      if (found != cache.counters.end() && found->second == 0) {
        warnings.push_back(fmt::format("the plugin did no {}: these are not the figures of this cache", name));
      }
    }
  }
  for (const PolicyUse& policy : PoliciesOf(cache)) {
    if (policy.acted && *policy.acted == 0) warnings.push_back(fmt::format("{} never acted: its figures say nothing about it", policy.key));
  }
  if (const double exact = ExactShare(options, cache); exact > kMostlyExact) {
    warnings.push_back(fmt::format("some {:.0f} % of the tokens that scored positions look back at are still exact: longer contexts lose more",
                                   100 * exact));
  }
  const PairedDifference paths = DecodeAgainstPrefill(report, options, cache);
  if (paths.verdict == Verdict::kWorse && (paths.ratio > kSuspiciousRatio || std::isnan(paths.difference))) {
    warnings.push_back(
        fmt::format("one token at a time it is {:.3g} times as far from f16 as in batches, on the same tokens: "
                    "suspect its decode kernels",
                    paths.ratio));
  }
  const std::vector<PositionBucket>& buckets = cache.prefill.by_position;
  if (buckets.size() >= 2 && buckets.front().mean.error && buckets.back().mean.error) {
    const MeanError &first = buckets.front().mean, &last = buckets.back().mean;
    const double error = std::hypot(*first.error, *last.error);
    if (last.mean > kSuspiciousRatio * first.mean && last.mean - first.mean > 3 * error) {
      warnings.push_back(fmt::format("the loss grows with depth: {:.3g} near token {}, {:.3g} near token {}", first.mean,
                                     buckets.front().begin, last.mean, buckets.back().end));
    }
  }
  return warnings;
}

}  // namespace swivel
