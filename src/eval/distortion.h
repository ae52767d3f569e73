// How far codecs move vectors, and how long they take: `swivel distortion`. docs/evaluation.md defines each figure.
#ifndef SWIVEL_EVAL_DISTORTION_H_
#define SWIVEL_EVAL_DISTORTION_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cpu.h"
#include "base/status.h"
#include "codec/codec.h"
#include "eval/softmax_probe.h"
#include "eval/vector_set.h"

namespace swivel {

struct DistortionOptions {
  Side side = Side::kKey;
  std::optional<ScaleMode> scale;     // of codecs that have a choice; without: what a cache takes when its spec names none
  Target target = Target::kPortable;  // of the encoding that is measured and timed
  bool time = true;
  int threads = 1;  // that encode at once while that is timed
};

// A codec on a set of vectors. What was not measured is absent; then `reason` says why.
struct DistortionRow {
  std::string codec, source;
  int width = 0;
  Side side = Side::kKey;
  std::optional<ScaleMode> scale;
  size_t vectors = 0;
  std::optional<double> bits;  // a value, scales and padding of the group counted
  std::optional<double> mse, mse_err;
  std::optional<double> mse_centered;  // absent where the vectors are all alike
  std::optional<double> ip_var_times_d, ip_bias, ip_bias_err;
  std::optional<double> softmax_kl, softmax_kl_err;              // absent for fewer than 16 vectors
  int threads = 1;                                               // of the two encode times
  std::optional<double> encode_ns, encode_scalar_ns, decode_ns;  // a vector
  std::string reason;
};

// The scale modes of rows, each once: "matched", "matched, unbiased", "" when no codec has a choice.
std::string ScaleNames(std::span<const DistortionRow> rows);

// Vectors with what all codecs share: norms, queries and exact products.
class DistortionMeter {
 public:
  static constexpr size_t kBlockRows = 512;  // keys of a softmax; the last ones are up to twice as long
  static constexpr int kQueriesARow = 8;     // random unit vectors that each row is multiplied with

  // `set` is not empty and outlives the meter.
  DistortionMeter(const VectorSet& set, uint64_t seed);

  // Never fails: a codec that cannot serve the width, or whose decoded vectors are not finite, gives a row with a reason.
  DistortionRow Measure(const Codec& codec, const DistortionOptions& options) const;

  const SoftmaxProbe& softmax() const { return *softmax_; }

 private:
  size_t BlockBegin(size_t block) const { return set_.rows() * block / num_blocks_; }
  const std::vector<float>& Query(size_t row, int which) const;
  Status MeasureError(const Codec& codec, const DistortionOptions& options, DistortionRow* row) const;
  void MeasureTime(const Codec& codec, const DistortionOptions& options, DistortionRow* row) const;

  const VectorSet& set_;
  size_t num_blocks_;
  std::vector<double> norms_;
  double centered_energy_ = 0;  // sum of ||x - mean||^2
  std::vector<std::vector<float>> queries_;
  uint64_t seed_;
  std::unique_ptr<SoftmaxProbe> softmax_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_DISTORTION_H_
