// What an error in keys does to attention: queries that find a few of the keys ("needles") among many others.
//
// A trial has the keys of one block of vectors, a random direction g and four needles among the keys. Its query is
//   q = c (g + t sum_k n_k),  n_k = unit vector from the mean of the keys to needle k,
// with c such that the logits <q, x> of the other keys have standard deviation 2, and t >= 0 such that the needles hold half of the
// softmax's mass (as much as can be reached where that is less). Then KL(softmax(<q, x>) || softmax(<q, x~>)) in nats. The keys are left
// as they are, so this works for any vectors; a shift that all keys share changes neither distribution.
#ifndef SWIVEL_EVAL_SOFTMAX_PROBE_H_
#define SWIVEL_EVAL_SOFTMAX_PROBE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "eval/metrics.h"

namespace swivel {

class SoftmaxProbe {
 public:
  static constexpr int kNeedles = 4;
  static constexpr double kLogitDeviation = 2;
  // Fewer keys than this are no attention.
  static constexpr size_t kLeastKeys = 16;

  // `blocks`: the keys of each block, `width` floats a key; the spans are only used here. Blocks whose keys are all alike give no trials.
  SoftmaxProbe(const std::vector<std::span<const float>>& blocks, int width, size_t trials_a_block, uint64_t seed);

  // The divergences of the trials of block `block` with other keys in the place of its own, appended to `divergences`.
  void Divergences(size_t block, std::span<const float> keys, std::vector<double>* divergences) const;

  // Their mean over all blocks and its standard error, from the means of blocks: trials of a block share its keys. Absent without trials.
  std::optional<MeanError> Mean(std::span<const double> divergences) const;

  struct Trial {
    std::vector<float> query;
    std::vector<float> logits;  // exact, less their mean
    double needle_mass = 0;
  };
  const std::vector<Trial>& trials(size_t block) const { return trials_[block]; }

 private:
  int width_;
  std::vector<std::vector<Trial>> trials_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_SOFTMAX_PROBE_H_
