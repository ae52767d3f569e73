// What a reader of a report must be told before the figures: which policies never acted, where a cache looks broken, what was compared with
// what and whether the difference counts.
#ifndef SWIVEL_EVAL_CHECKS_H_
#define SWIVEL_EVAL_CHECKS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "eval/paired.h"
#include "eval/quality.h"

namespace swivel {

// One cache against the reference, on both paths.
struct CacheVerdict {
  PairedDifference prefill, decode;
};
// One a cache of the report; empty ones for the base, the reference itself and refused caches. `reference` is an index into report.caches.
std::vector<CacheVerdict> Judge(const QualityReport& report, size_t reference);

// A key of a cache's spec that is a policy (window=128) and how often the plugin says it acted.
struct PolicyUse {
  std::string key;
  std::optional<int64_t> acted;  // absent: the plugin does not count it
};
std::vector<PolicyUse> PoliciesOf(const CacheQuality& cache);

// Sentences about one cache, the gravest first. None when nothing looks wrong.
std::vector<std::string> Warnings(const QualityReport& report, const QualityOptions& options, const CacheQuality& cache);

// The decode path against the prefill path on the positions that both scored.
PairedDifference DecodeAgainstPrefill(const QualityReport& report, const QualityOptions& options, const CacheQuality& cache);

}  // namespace swivel

#endif  // SWIVEL_EVAL_CHECKS_H_
