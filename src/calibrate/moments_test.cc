#include "calibrate/moments.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "calibrate/test_windows.h"

namespace swivel {
namespace {

using test_windows::RandomRows;
using test_windows::Rows;

using Sees = bool (*)(const AttentionWindow&, int query, int key);

bool Excluded(const AttentionWindow& w, int j) { return j < w.num_sinks || (w.excluded != nullptr && w.excluded[j] != 0); }

bool Causal(const AttentionWindow& w, int i, int j) {
  const int own = w.num_keys - w.num_queries + i;
  return j <= own && (w.sliding_window == 0 || j > own - w.sliding_window);
}

// The definitions in moments.h, in double, a key at a time.
HeadMoments Expected(const AttentionWindow& w, bool group_means, const std::vector<std::pair<int, int>>& groups, Sees sees = &Causal) {
  HeadMoments result = EmptyMoments(w.width, group_means);
  const auto d = static_cast<size_t>(w.width);
  const auto keys = static_cast<size_t>(w.num_keys), queries = static_cast<size_t>(w.num_queries);
  const size_t key_stride = w.key_stride != 0 ? static_cast<size_t>(w.key_stride) : d;
  const size_t stride = w.query_stride != 0 ? static_cast<size_t>(w.query_stride) : d;
  const size_t head_stride = w.query_head_stride != 0 ? static_cast<size_t>(w.query_head_stride) : queries * stride;
  std::vector<double> attention(keys, 0);
  for (size_t head = 0; head < static_cast<size_t>(w.group); ++head) {
    for (size_t i = 0; i < queries; ++i) {
      const float* q = w.queries + head * head_stride + i * stride;
      std::vector<double> p(keys, 0);
      double most = -1e300, sum = 0, weight = 1, outside = 0;
      for (size_t j = 0; j < keys; ++j) {
        for (size_t c = 0; c < d; ++c) p[j] += static_cast<double>(q[c]) * w.keys[j * key_stride + c];
        p[j] *= w.logit_scale;
        if (sees(w, static_cast<int>(i), static_cast<int>(j))) most = std::max(most, p[j]);
      }
      for (size_t j = 0; j < keys; ++j) {
        p[j] = sees(w, static_cast<int>(i), static_cast<int>(j)) ? std::exp(p[j] - most) : 0;
        sum += p[j];
      }
      if (sum == 0) continue;
      for (size_t j = 0; j < keys; ++j) {
        p[j] /= sum;
        if (Excluded(w, static_cast<int>(j))) continue;
        attention[j] += p[j] * (1 - p[j]);
        weight -= p[j] * p[j];
        outside += p[j];
      }
      if (outside == 0) continue;
      result.query_weight += weight;
      for (size_t c = 0; c < d * d; ++c) result.query_moment[c] += weight * q[c / d] * q[c % d];
    }
  }
  for (double& value : result.query_moment) value /= result.query_weight;

  double sum = 0;
  for (size_t j = 0; j < keys; ++j) {
    result.num_keys += !Excluded(w, static_cast<int>(j));
    sum += attention[j];
  }
  std::vector<double> weights(keys, 0);
  for (size_t j = 0; j < keys; ++j) {
    if (Excluded(w, static_cast<int>(j))) continue;
    weights[j] = .75 * static_cast<double>(result.num_keys) * attention[j] / sum + .25;
    result.key_weight += weights[j];
    result.key_weight_squares += weights[j] * weights[j];
    for (size_t c = 0; c < d; ++c) result.mean[c] += weights[j] * w.keys[j * key_stride + c];
  }
  for (double& value : result.mean) value /= result.key_weight;
  for (const auto& [begin, end] : groups) {
    std::vector<double> centre = result.mean;
    if (group_means) {
      double count = 0;
      std::fill(centre.begin(), centre.end(), 0);
      for (int j = begin; j < end; ++j) {
        if (Excluded(w, j)) continue;
        for (size_t c = 0; c < d; ++c) centre[c] += w.keys[static_cast<size_t>(j) * key_stride + c];
        ++count;
      }
      for (double& value : centre) value /= count;
    }
    for (int j = begin; j < end; ++j) {
      const float* k = w.keys + static_cast<size_t>(j) * key_stride;
      for (size_t c = 0; c < d * d; ++c) {
        result.key_covariance[c] += weights[static_cast<size_t>(j)] * (k[c / d] - centre[c / d]) * (k[c % d] - centre[c % d]);
      }
    }
  }
  for (double& value : result.key_covariance) value /= result.key_weight;
  return result;
}

void ExpectNear(const std::vector<double>& actual, const std::vector<double>& expected, double bound, const char* what) {
  double most = 0;
  for (double value : expected) most = std::max(most, std::abs(value));
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) ASSERT_NEAR(actual[i], expected[i], bound * most) << what << " " << i;
}

void ExpectSame(const HeadMoments& actual, const HeadMoments& expected, double bound = 2e-5) {
  EXPECT_EQ(actual.num_keys, expected.num_keys);
  EXPECT_NEAR(actual.key_weight, expected.key_weight, bound * expected.key_weight);
  EXPECT_NEAR(actual.key_weight_squares, expected.key_weight_squares, bound * expected.key_weight_squares);
  EXPECT_NEAR(actual.query_weight, expected.query_weight, bound * expected.query_weight);
  ExpectNear(actual.mean, expected.mean, bound, "mean");
  ExpectNear(actual.key_covariance, expected.key_covariance, bound, "key covariance");
  ExpectNear(actual.query_moment, expected.query_moment, bound, "query moment");
}

HeadMoments Added(const AttentionWindow& window, bool group_means) {
  HeadMoments moments = EmptyMoments(window.width, group_means);
  const Status status = AddWindow(window, &moments);
  EXPECT_TRUE(status.ok()) << status.message();
  return moments;
}

TEST(Moments, AreThoseOfADoubleSoftmax) {
  const Rows rows = RandomRows(32, 300, 3, 300, 1);
  AttentionWindow window = rows.window;
  window.num_sinks = 4;
  // 300 = 128 + 128 + 44, and 44 tokens are too few for a mean of their own.
  ExpectSame(Added(window, true), Expected(window, true, {{0, 128}, {128, 300}}));
  ExpectSame(Added(window, false), Expected(window, false, {{0, 300}}));
}

TEST(Moments, TakeFewerQueriesASlidingWindowAndStrides) {
  const Rows rows = RandomRows(48, 200, 2, 70, 2);
  std::vector<float> keys(200 * 60, 1e9f), queries(2 * 70 * 50 + 100, 1e9f);
  for (size_t j = 0; j < 200; ++j) std::copy_n(&rows.keys[j * 48], 48, &keys[j * 60]);
  for (size_t i = 0; i < 70; ++i) {
    for (size_t h = 0; h < 2; ++h) std::copy_n(&rows.queries[(h * 70 + i) * 48], 48, &queries[(i * 2 + h) * 50]);
  }
  AttentionWindow window = rows.window;
  window.num_sinks = 1;
  window.sliding_window = 33;
  const HeadMoments expected = Expected(window, true, {{0, 128}, {128, 200}});
  ExpectSame(Added(window, true), expected);
  window.keys = keys.data();
  window.key_stride = 60;
  window.queries = queries.data();
  window.query_stride = 100;
  window.query_head_stride = 50;
  ExpectSame(Added(window, true), expected);
}

// Two sequences in turns, each with a sink of its own, and a query that sees nothing.
TEST(Moments, TakeAnyVisibility) {
  const Rows rows = RandomRows(16, 130, 2, 130, 3);
  AttentionWindow window = rows.window;
  std::vector<uint8_t> visible(130 * 130), excluded(130, 0);
  for (int i = 0; i < 130; ++i) {
    for (int j = 0; j < 130; ++j) visible[static_cast<size_t>(i * 130 + j)] = i != 7 && i % 2 == j % 2 && j <= i;
  }
  excluded[0] = excluded[1] = 1;
  window.visible = visible.data();
  window.excluded = excluded.data();
  const Sees sees = [](const AttentionWindow& w, int i, int j) { return w.visible[i * w.num_keys + j] != 0; };
  ExpectSame(Added(window, false), Expected(window, false, {{0, 130}}, sees));
}

TEST(Moments, OfWindowsAddUp) {
  Rows a = RandomRows(16, 128, 1, 128, 4), b = RandomRows(16, 256, 1, 256, 5);
  for (float& value : b.keys) value += 3;
  const HeadMoments first = Added(a.window, false), second = Added(b.window, false);
  HeadMoments both = first;
  ASSERT_TRUE(AddWindow(b.window, &both).ok());
  EXPECT_EQ(both.num_keys, 384);
  const double share = first.key_weight / (first.key_weight + second.key_weight);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 16; ++j) {
      // By the second moments around zero, which simply add up.
      const auto around_zero = [&](const HeadMoments& m) { return m.key_covariance[i * 16 + j] + m.mean[i] * m.mean[j]; };
      EXPECT_NEAR(around_zero(both), share * around_zero(first) + (1 - share) * around_zero(second), 1e-9);
    }
  }
  HeadMoments other = EmptyMoments(16, true);
  EXPECT_EQ(MergeMoments(first, &other).code(), StatusCode::kInvalidArgument);
}

// A mean of norm 900 beside deviations of 1: what a bias on K makes.
TEST(Moments, SurviveALargeMean) {
  Rows rows = RandomRows(32, 256, 2, 256, 6);
  for (size_t i = 0; i < rows.keys.size(); ++i) rows.keys[i] += i % 32 < 4 ? 450.0f : 0.0f;
  // The reference sees the same keys without the shift: it changes no softmax.
  const Rows plain = RandomRows(32, 256, 2, 256, 6);
  for (const bool group_means : {false, true}) {
    const HeadMoments shifted = Added(rows.window, group_means), expected = Added(plain.window, group_means);
    ExpectNear(shifted.key_covariance, expected.key_covariance, 1e-3, "key covariance");
  }
}

TEST(Moments, AreDefinedWithoutQueriesAndWithoutKeys) {
  const Rows rows = RandomRows(16, 40, 1, 0, 7);
  const HeadMoments uniform = Added(rows.window, false);
  EXPECT_EQ(uniform.key_weight, 40);
  EXPECT_EQ(uniform.effective_keys(), 40);
  EXPECT_EQ(uniform.query_weight, 0);
  AttentionWindow window = rows.window;
  window.num_sinks = 40;
  const HeadMoments none = Added(window, true);
  EXPECT_EQ(none.num_keys, 0);
  for (double value : none.key_covariance) EXPECT_EQ(value, 0);
}

TEST(Moments, RefuseWhatIsWrong) {
  Rows rows = RandomRows(16, 64, 1, 64, 8);
  HeadMoments moments = Added(rows.window, false);
  const std::vector<double> before = moments.key_covariance;
  const auto refused = [&](const AttentionWindow& window) {
    const Status status = AddWindow(window, &moments);
    EXPECT_EQ(moments.key_covariance, before);
    return status.code() == StatusCode::kInvalidArgument && !status.message().empty();
  };
  for (const float wrong : {std::numeric_limits<float>::quiet_NaN(), std::numeric_limits<float>::infinity()}) {
    for (std::vector<float>* values : {&rows.keys, &rows.queries}) {
      const float right = (*values)[37 * 16 + 3];
      (*values)[37 * 16 + 3] = wrong;
      EXPECT_TRUE(refused(rows.window));
      (*values)[37 * 16 + 3] = right;
    }
  }
  AttentionWindow window = rows.window;
  window.width = 32;
  EXPECT_TRUE(refused(window));
  window = rows.window;
  window.num_keys = 63;
  EXPECT_TRUE(refused(window));
  window = rows.window;
  window.queries = nullptr;
  EXPECT_TRUE(refused(window));
  window = rows.window;
  window.logit_scale = 1e38f;
  EXPECT_TRUE(refused(window));
}

}  // namespace
}  // namespace swivel
