// Two caches on the same tokens: is one better, or can this text not tell?
//
// Both see every token, so what is hard about a token cancels in the difference. Its mean is bootstrapped over blocks of consecutive
// positions, since neighbours correlate (moving-block bootstrap with fixed blocks; Kuensch 1989).
#ifndef SWIVEL_EVAL_PAIRED_H_
#define SWIVEL_EVAL_PAIRED_H_

#include <cstddef>
#include <span>
#include <string>

namespace swivel {

enum class Verdict { kNotMeasured, kBetter, kWorse, kNotDistinguishable };
// "better", "worse", "not distinguishable", "not measured".
std::string VerdictName(Verdict verdict);

// Of a against b, lower values being better. The interval is one of 99 %: a table of ten caches with 95 % would hold a false verdict two
// times in five.
struct PairedDifference {
  Verdict verdict = Verdict::kNotMeasured;
  size_t positions = 0, blocks = 0;
  double difference = 0, low = 0, high = 0;  // mean of a - b; set with at least kLeastBlocks
  double ratio = 0;                          // mean a / mean b; 0 where that has no meaning
};
inline constexpr size_t kLeastBlocks = 8;

// `floor`: a difference smaller than what the same computation differs from itself decides nothing. Values that are not finite in `a` alone
// make it worse, in `b` nothing is measured. Deterministic.
PairedDifference ComparePaired(std::span<const float> a, std::span<const float> b, std::span<const size_t> run_lengths, double floor = 0);

}  // namespace swivel

#endif  // SWIVEL_EVAL_PAIRED_H_
