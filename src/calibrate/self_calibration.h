// The basis of a layer's keys from the first tokens that a context sees: collects their queries while they are computed, then makes a
// transform for each KV head.
#ifndef SWIVEL_CALIBRATE_SELF_CALIBRATION_H_
#define SWIVEL_CALIBRATE_SELF_CALIBRATION_H_

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "cache/layer_cache.h"
#include "calibrate/moments.h"
#include "kernel/attend/attend.h"

namespace swivel {

// Of one layer. Add by one thread; Moments by any, after complete().
class SelfCalibration {
 public:
  SelfCalibration(int width, int wanted_tokens) : width_(width), wanted_(wanted_tokens) {}

  bool complete() const { return live_ >= wanted_; }
  int wanted() const { return wanted_; }
  // Takes queries of an attention call, with the cells each of them sees, until there are enough. Exactly the first ones are taken, however
  // the host has cut them into batches.
  void Add(const AttendArgs& args);
  // The row of a cell is about to be overwritten: queries have not seen the new one. One that has nothing left counts no more.
  void Forget(int64_t cell);

  // The moments of one KV head, keys as the cache holds them. Sinks (cells that the cache keeps exact for good, else the first
  // kCalibrationSinks cells) are left out.
  StatusOr<HeadMoments> Moments(const LayerCache& cache, int kv_head, bool group_means) const;

  void Clear();

 private:
  using Runs = std::vector<std::pair<int64_t, int64_t>>;  // [first, last) cells, over all streams, ascending

  int num_queries() const { return static_cast<int>(visible_.size()); }
  // Queries that count no more leave the memory, too.
  void Compact();

  int width_, wanted_;
  int live_ = 0;  // queries that see something
  int num_heads_ = 0;
  float logit_scale_ = 1.0f;
  std::vector<uint16_t> queries_;  // f16 [query][head][width]
  std::vector<Runs> visible_;      // of each query
};

}  // namespace swivel

#endif  // SWIVEL_CALIBRATE_SELF_CALIBRATION_H_
