// Which cache to use: what a reader wants to know first, from the verdicts alone.
#ifndef SWIVEL_EVAL_REPORT_CHOICE_H_
#define SWIVEL_EVAL_REPORT_CHOICE_H_

#include <cstddef>
#include <string>
#include <vector>

#include "eval/report.h"

namespace swivel {

// The smallest cache that this text does not show to be worse than a known one, the nearest to f16 in the memory of q4_0, and the smallest of
// all. Known ones are what people use today; so no threshold of ours decides.
struct Choice {
  std::vector<std::string> reasons;  // "Smallest that is not worse than q4_0"; more when one cache is several choices
  size_t cache = 0;                  // index into report.quality.caches
};
std::vector<Choice> Choose(const EvalReport& report);

// "1 in 42"; "fewer than 1 in 3069" where none was seen. Of positions whose most likely token changed.
std::string ChangedTokens(const CacheQuality& cache);

// The command that uses a cache.
std::string UseCommand(const EvalReport& report, const CacheQuality& cache);

}  // namespace swivel

#endif  // SWIVEL_EVAL_REPORT_CHOICE_H_
