// What the tests of calibration share: made-up windows, and a Gaussian with a covariance that no transform should find easy.
#ifndef SWIVEL_CALIBRATE_TEST_WINDOWS_H_
#define SWIVEL_CALIBRATE_TEST_WINDOWS_H_

#include <cmath>
#include <cstdint>
#include <vector>

#include "base/random.h"
#include "calibrate/moments.h"

namespace swivel::test_windows {

// Keys and queries with strong, different channels, correlated neighbours, and a mean that is larger than either.
struct Rows {
  std::vector<float> keys, queries;
  AttentionWindow window;
};

inline Rows RandomRows(int width, int num_keys, int group, int num_queries, uint64_t seed) {
  Random random(seed);
  Rows rows;
  const auto fill = [&](std::vector<float>* values, int count, double slope, float mean) {
    for (int row = 0; row < count; ++row) {
      float before = 0;
      for (int i = 0; i < width; ++i) {
        const float own = random.Normal();
        const auto scale = static_cast<float>(std::exp(slope * std::sin(1.7 * i)));
        values->push_back(scale * (own + .8f * before) + (i % 5 == 0 ? mean : 0.0f));
        before = own;
      }
    }
  };
  fill(&rows.keys, num_keys, 1.0, 5);
  fill(&rows.queries, group * num_queries, -.7, .5f);
  rows.window.width = width;
  rows.window.num_keys = num_keys;
  rows.window.keys = rows.keys.data();
  rows.window.group = group;
  rows.window.num_queries = num_queries;
  rows.window.queries = rows.queries.data();
  rows.window.logit_scale = 1 / std::sqrt(static_cast<float>(width));
  return rows;
}

}  // namespace swivel::test_windows

#endif  // SWIVEL_CALIBRATE_TEST_WINDOWS_H_
