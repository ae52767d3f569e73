// The figures of consecutive positions of one path of one cache: the raw material of every statistic.
#ifndef SWIVEL_EVAL_SERIES_H_
#define SWIVEL_EVAL_SERIES_H_

#include <cstddef>
#include <span>
#include <vector>

#include "eval/store.h"

namespace swivel {

// Floats keep seven digits of a divergence however small it is, which is more than any error here; sums are taken in double.
struct Series {
  std::vector<float> kld;           // KL(base || cache), nats
  std::vector<float> nll;           // -ln q(next token)
  std::vector<float> delta_p;       // q(next token) - p(next token)
  std::vector<float> same_top1;     // 1 or 0
  std::vector<float> top5_overlap;  // share of the base's five most likely tokens among the cache's
  std::vector<size_t> runs;         // lengths of consecutive stretches

  size_t size() const { return kld.size(); }
  // One run of `length` zeros.
  explicit Series(size_t length = 0);
  void Append(const Series& other);
};

// In a store a series is one run. A record of another length or without its columns gives an empty series.
Record ToRecord(const Series& series);
Series ToSeries(const Record& record);

std::vector<double> Widen(std::span<const float> values);

}  // namespace swivel

#endif  // SWIVEL_EVAL_SERIES_H_
