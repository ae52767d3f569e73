// Small reproducible random numbers. Integers and uniform numbers are the same on every machine; normal ones to the last bit of the C
// library's log and cos, which is enough for tests. Formats use SplitMix64 or math/projection.h.
#ifndef SWIVEL_BASE_RANDOM_H_
#define SWIVEL_BASE_RANDOM_H_

#include <cmath>
#include <cstdint>

namespace swivel {

// The finaliser of SplitMix64 (Steele, Lea, Flood 2014) applied to a counter: a stateless hash of 64 bits.
inline constexpr uint64_t SplitMix64(uint64_t counter) {
  uint64_t z = (counter + 1) * 0x9e3779b97f4a7c15ull;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebull;
  return z ^ (z >> 31);
}

// A counter-based generator for tests, benches and bootstraps.
class Random {
 public:
  explicit Random(uint64_t seed) : counter_(seed * 0x2545f4914f6cdd1dull) {}

  uint64_t Bits() { return SplitMix64(counter_++); }
  // Uniform in [0, 1).
  double Uniform() { return static_cast<double>(Bits() >> 11) * 0x1p-53; }
  int Below(int bound) { return static_cast<int>(Uniform() * bound); }
  // Standard normal (Box-Muller, one of the pair).
  float Normal() {
    const double radius = std::sqrt(-2.0 * std::log(1.0 - Uniform()));
    return static_cast<float>(radius * std::cos(6.283185307179586 * Uniform()));
  }

 private:
  uint64_t counter_;
};

}  // namespace swivel

#endif  // SWIVEL_BASE_RANDOM_H_
