#include "calibrate/transform.h"

#include <gtest/gtest.h>

#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <limits>
#include <vector>

#include "base/random.h"
#include "calibrate/test_windows.h"
#include "math/rotation.h"

namespace swivel {
namespace {

using test_windows::RandomRows;
using test_windows::Rows;
using Matrix = Eigen::MatrixXd;

constexpr TransformKind kKinds[] = {TransformKind::kHadamard, TransformKind::kDiagonal, TransformKind::kFull};

HeadMoments RandomMoments(int width, bool group_means = true) {
  Rows rows = RandomRows(width, 512, 2, 512, 11);
  rows.window.num_sinks = 4;
  HeadMoments moments = EmptyMoments(width, group_means);
  EXPECT_TRUE(AddWindow(rows.window, &moments).ok());
  return moments;
}

Matrix Double(const std::vector<float>& values) {
  const auto width = static_cast<Eigen::Index>(std::lround(std::sqrt(static_cast<double>(values.size()))));
  return Eigen::Map<const Eigen::MatrixXf>(values.data(), width, width).cast<double>();
}

Matrix Double(const std::vector<double>& values, int width) { return Eigen::Map<const Matrix>(values.data(), width, width); }

KeyTransform Made(const HeadMoments& moments, TransformKind kind, double shrink = .5, bool two_segments = true) {
  StatusOr<KeyTransform> transform = MakeTransform(moments, kind, shrink, true, two_segments);
  EXPECT_TRUE(transform.ok()) << transform.status().message();
  return transform.ok() ? *transform : KeyTransform();
}

// tr(S_q T^-1 T^-T) tr(T S_k T^T)
double Objective(const HeadMoments& moments, const KeyTransform& transform) {
  const Matrix key = Double(moments.key_covariance, moments.width), query = Double(moments.query_moment, moments.width);
  const Matrix forward = Double(transform.forward), inverse = Double(transform.inverse);
  return (query * inverse * inverse.transpose()).trace() * (forward * key * forward.transpose()).trace();
}

TEST(Transform, KeepsScores) {
  for (const int width : {16, 48, 64, 80, 128, 256}) {
    const HeadMoments moments = RandomMoments(width);
    const Rows rows = RandomRows(width, 8, 1, 8, 12);
    for (const TransformKind kind : kKinds) {
      const KeyTransform t = Made(moments, kind);
      ASSERT_EQ(t.width, width);
      EXPECT_EQ(t.split, kind == TransformKind::kFull ? FirstSegment(width) : width);
      const Matrix forward = Double(t.forward), inverse = Double(t.inverse);
      EXPECT_LT((forward * inverse - Matrix::Identity(width, width)).cwiseAbs().maxCoeff(), 1e-5) << width;
      EXPECT_EQ(Double(t.query), Matrix(inverse.transpose()));
      for (size_t row = 0; row < 8; ++row) {
        const auto vector = [&](const std::vector<float>& values, size_t at) {
          return Eigen::VectorXd(Eigen::Map<const Eigen::VectorXf>(&values[at * static_cast<size_t>(width)], width).cast<double>());
        };
        const Eigen::VectorXd k = vector(rows.keys, row), q = vector(rows.queries, row), mean = vector(t.mean, 0);
        const double score = (Double(t.query) * q).dot(forward * (k - mean)) + q.dot(mean);
        EXPECT_NEAR(score, q.dot(k), 1e-5 * q.norm() * k.norm()) << width;
      }
    }
  }
}

TEST(Transform, InOneSegmentReachesTheMinimum) {
  HeadMoments moments = RandomMoments(64);
  // The ridge as a part of the problem: then the minimum is known exactly.
  const Matrix key = Double(moments.key_covariance, 64), query = Double(moments.query_moment, 64);
  for (size_t i = 0; i < 64; ++i) {
    moments.key_covariance[65 * i] += 1e-3 * key.trace() / 64;
    moments.query_moment[65 * i] += 1e-3 * query.trace() / 64;
  }
  const Matrix ridged_key = Double(moments.key_covariance, 64), ridged_query = Double(moments.query_moment, 64);
  const Eigen::EigenSolver<Matrix> solver(ridged_query * ridged_key);
  const double sum = solver.eigenvalues().real().cwiseSqrt().sum();
  const double full = Objective(moments, Made(moments, TransformKind::kFull, 1, false));
  const double diagonal = Objective(moments, Made(moments, TransformKind::kDiagonal));
  const double rotation = Objective(moments, Made(moments, TransformKind::kHadamard));
  EXPECT_NEAR(full, sum * sum, 2e-3 * sum * sum);  // the second ridge
  EXPECT_GE(full, sum * sum * (1 - 1e-6));
  EXPECT_LT(1.05 * full, diagonal);
  EXPECT_LT(1.2 * diagonal, rotation);
  const double plain = ridged_key.trace() * ridged_query.trace();
  EXPECT_NEAR(NoiseRatio(moments, Made(moments, TransformKind::kFull, 1, false)), full / plain, 1e-6);
  EXPECT_NEAR(NoiseRatio(moments, Made(moments, TransformKind::kHadamard)), 1, 1e-4);
  EXPECT_NEAR(rotation, ridged_key.trace() * ridged_query.trace(), 1e-4 * rotation);
}

TEST(Transform, OfShrinkZeroIsTheDiagonalOne) {
  HeadMoments moments = RandomMoments(64);
  const double full = Objective(moments, Made(moments, TransformKind::kFull, 0, false));
  const double diagonal = Objective(moments, Made(moments, TransformKind::kDiagonal));
  EXPECT_NEAR(full, diagonal, 5e-3 * diagonal);
  // Off-diagonal elements play no part.
  const KeyTransform before = Made(moments, TransformKind::kFull, 0);
  for (size_t i = 0; i < 64 * 64; ++i) {
    if (i % 65 == 0) continue;
    moments.query_moment[i] = 0;
    moments.key_covariance[i] *= .5;
  }
  const KeyTransform after = Made(moments, TransformKind::kFull, 0);
  // Up to the scale of the segments, which counts what is really coded.
  const Matrix ratio = Double(before.forward) * Double(after.inverse);
  for (Eigen::Index i = 0; i < 64; ++i) {
    const double scale = ratio(i < 32 ? 0 : 32, i < 32 ? 0 : 32);
    for (Eigen::Index j = 0; j < 64; ++j) EXPECT_NEAR(ratio(i, j), i == j ? scale : 0, 1e-4 * scale);
  }
}

// What the segments are for: flat inside, the first with more of the logit noise.
TEST(Transform, IsFlatInsideASegment) {
  for (const int width : {64, 80, 128}) {
    const HeadMoments moments = RandomMoments(width);
    const KeyTransform t = Made(moments, TransformKind::kFull, 1);
    const Matrix forward = Double(t.forward), inverse = Double(t.inverse);
    const Eigen::VectorXd keys = (forward * Double(moments.key_covariance, width) * forward.transpose()).diagonal();
    const Eigen::VectorXd queries = (inverse.transpose() * Double(moments.query_moment, width) * inverse).diagonal();
    const int second = width - t.split;
    EXPECT_NEAR(keys.head(t.split).mean(), 1, 1e-4);
    EXPECT_NEAR(keys.tail(second).mean(), 1, 1e-4);
    // A width that is no power of two is mixed across its blocks by a reflection, which is less even.
    const double flat = width == 80 ? 2.5 : 1.5;
    EXPECT_LT(keys.head(t.split).maxCoeff() / keys.head(t.split).minCoeff(), flat) << width;
    EXPECT_LT(keys.tail(second).maxCoeff() / keys.tail(second).minCoeff(), flat) << width;
    EXPECT_GT(queries.head(t.split).mean(), 1.5 * queries.tail(second).mean()) << width;
  }
}

TEST(Transform, WithoutTheMeanCodesIt) {
  const HeadMoments moments = RandomMoments(64, false);
  StatusOr<KeyTransform> without = MakeTransform(moments, TransformKind::kDiagonal, 0, false, false);
  ASSERT_TRUE(without.ok());
  for (float value : without->mean) EXPECT_EQ(value, 0);
  const Eigen::Map<const Eigen::VectorXd> mean(moments.mean.data(), 64);
  const Matrix forward = Double(without->forward);
  const double square = (forward * (Double(moments.key_covariance, 64) + mean * mean.transpose()) * forward.transpose()).trace();
  EXPECT_NEAR(square, 64, 1e-3);
}

TEST(Transform, OfDegenerateMomentsIsFinite) {
  const auto finite = [](const StatusOr<KeyTransform>& t) {
    if (!t.ok()) return false;
    for (const auto* values : {&t.value().mean, &t.value().forward, &t.value().query, &t.value().inverse}) {
      for (float value : *values) {
        if (!std::isfinite(value)) return false;
      }
    }
    const Matrix unit = Double(t.value().forward) * Double(t.value().inverse);
    return (unit - Matrix::Identity(unit.rows(), unit.cols())).cwiseAbs().maxCoeff() < 1e-4;
  };
  HeadMoments constant = RandomMoments(64);  // two channels that never change, and one that no query uses
  for (size_t i = 0; i < 64; ++i) {
    for (const size_t channel : {size_t{3}, size_t{40}})
      constant.key_covariance[64 * i + channel] = constant.key_covariance[64 * channel + i] = 0;
    constant.query_moment[64 * i + 5] = constant.query_moment[64 * 5 + i] = 0;
  }
  HeadMoments no_queries = RandomMoments(64), no_variance = RandomMoments(64), rank_one = RandomMoments(64), tiny = RandomMoments(64);
  std::fill(no_queries.query_moment.begin(), no_queries.query_moment.end(), 0);
  std::fill(no_variance.key_covariance.begin(), no_variance.key_covariance.end(), 0);
  std::fill(rank_one.key_covariance.begin(), rank_one.key_covariance.end(), 1e6);
  std::fill(rank_one.query_moment.begin(), rank_one.query_moment.end(), 1e-6);
  for (double& value : tiny.key_covariance) value *= 1e-30;
  for (const TransformKind kind : kKinds) {
    for (const HeadMoments* moments : {&constant, &no_queries, &no_variance, &rank_one, &tiny}) {
      for (const double shrink : {0.0, .3, 1.0}) EXPECT_TRUE(finite(MakeTransform(*moments, kind, shrink, true, true)));
    }
  }
}

TEST(Transform, RefusesWhatIsWrong) {
  const HeadMoments right = RandomMoments(64);
  const auto refused = [](const HeadMoments& moments, double shrink = .5) {
    const StatusOr<KeyTransform> t = MakeTransform(moments, TransformKind::kFull, shrink, true, true);
    return t.status().code() == StatusCode::kInvalidArgument && !t.status().message().empty();
  };
  EXPECT_TRUE(refused(right, -.1));
  EXPECT_TRUE(refused(right, 1.1));
  EXPECT_TRUE(refused(right, std::numeric_limits<double>::quiet_NaN()));
  EXPECT_TRUE(refused(EmptyMoments(64, true)));
  EXPECT_TRUE(refused(EmptyMoments(24, true)));
  EXPECT_TRUE(refused(HeadMoments()));
  for (std::vector<double> HeadMoments::*member : {&HeadMoments::mean, &HeadMoments::key_covariance, &HeadMoments::query_moment}) {
    HeadMoments wrong = right;
    (wrong.*member)[17] = std::numeric_limits<double>::quiet_NaN();
    EXPECT_TRUE(refused(wrong));
    (wrong.*member).pop_back();
    EXPECT_TRUE(refused(wrong));
  }
  HeadMoments few = right;
  few.num_keys = 15;
  EXPECT_TRUE(refused(few));
  HeadMoments huge = right;
  for (double& value : huge.key_covariance) value *= 1e200;
  EXPECT_TRUE(refused(huge));
}

}  // namespace
}  // namespace swivel
