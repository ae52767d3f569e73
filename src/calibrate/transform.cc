#include "calibrate/transform.h"

#include <Eigen/Cholesky>
#include <Eigen/Core>
#include <Eigen/Eigenvalues>
#include <cmath>
#include <new>
#include <string>

#include "math/rotation.h"

namespace swivel {
namespace {

using Matrix = Eigen::MatrixXd;
using Vector = Eigen::VectorXd;

// Added to every variance of a full transform, as a share of the mean variance; the least variance of a diagonal one, which needs no more.
constexpr double kRidge = 1e-3;
constexpr double kLeastVariance = 1e-6;
constexpr int kFewestKeys = 16;

Eigen::Map<const Matrix> View(const std::vector<double>& matrix, int width) { return {matrix.data(), width, width}; }

bool AllFinite(const std::vector<double>& values) {
  return std::all_of(values.begin(), values.end(), [](double value) { return std::isfinite(value); });
}

Status Check(const HeadMoments& moments, TransformKind kind, double shrink) {
  const int width = moments.width;
  if (width < 16 || width % 16 != 0 || width > kMaxRotationWidth) {
    return Status::Invalid("a key transform needs a head width that is a multiple of 16 up to " + std::to_string(kMaxRotationWidth) +
                           ", not " + std::to_string(width));
  }
  const auto values = static_cast<size_t>(width);
  if (moments.mean.size() != values || moments.key_covariance.size() != values * values || moments.query_moment.size() != values * values) {
    return Status::Invalid("the moments of a head do not have the size of its width");
  }
  if (!(shrink >= 0 && shrink <= 1)) return Status::Invalid("the factor on off-diagonal moments must be from 0 to 1");
  if (!AllFinite(moments.mean) || !AllFinite(moments.key_covariance) || !AllFinite(moments.query_moment)) {
    return Status::Invalid("the moments of a head hold values that are not finite");
  }
  if (!(moments.key_weight > 0)) return Status::Invalid("the moments of a head come from no keys");
  if (kind == TransformKind::kFull && moments.num_keys < kFewestKeys) {
    return Status::Invalid("a full key transform needs " + std::to_string(kFewestKeys) + " keys; there are " +
                           std::to_string(moments.num_keys));
  }
  return {};
}

// Off-diagonals shrunk, a ridge added; the identity where there is no variance at all.
Matrix Regularised(const Matrix& moment, double shrink) {
  const Vector diagonal = moment.diagonal().cwiseMax(0);
  const double mean = diagonal.mean();
  if (!(mean > 0)) return Matrix::Identity(moment.rows(), moment.cols());
  Matrix result = shrink * moment;
  result.diagonal() = diagonal.array() + kRidge * mean;
  return result;
}

Vector RegularisedDiagonal(const Matrix& moment) {
  const Vector diagonal = moment.diagonal();
  const double mean = diagonal.cwiseMax(0).mean();
  if (!(mean > 0)) return Vector::Ones(moment.rows());
  return diagonal.cwiseMax(kLeastVariance * mean);
}

// R in double: the float butterflies of math/rotation.h are exact on unit vectors but for the factors at the end.
Matrix RotationMatrix(int width) {
  Matrix matrix(width, width);
  std::vector<float> column(static_cast<size_t>(width));
  for (int j = 0; j < width; ++j) {
    std::fill(column.begin(), column.end(), 0.0f);
    column[static_cast<size_t>(j)] = 1;
    Rotate(Frame::kSignedHadamard, column.data(), width);
    for (int i = 0; i < width; ++i) matrix(i, j) = column[static_cast<size_t>(i)];
  }
  // Float factors such as 1/sqrt(32) leave R orthogonal to 1e-7 only; one Newton step towards the nearest orthogonal matrix squares that.
  return 1.5 * matrix - .5 * matrix * (matrix.transpose() * matrix);
}

std::vector<float> Floats(const Matrix& matrix) {
  std::vector<float> values(static_cast<size_t>(matrix.size()));
  Eigen::Map<Eigen::MatrixXf>(values.data(), matrix.rows(), matrix.cols()) = matrix.cast<float>();
  return values;
}

// T = rotation * forward and T^-1 = inverse * rotation^T, before the rotation of each segment and its scale.
struct Basis {
  Matrix forward, inverse;
};

Basis DiagonalBasis(const Matrix& key, const Matrix& query) {
  const Vector scale = (RegularisedDiagonal(query).array() / RegularisedDiagonal(key).array()).pow(.25);
  return {scale.asDiagonal(), scale.cwiseInverse().asDiagonal()};
}

StatusOr<Basis> FullBasis(const Matrix& key_moment, const Matrix& query_moment, double shrink) {
  const Matrix key = Regularised(key_moment, shrink), query = Regularised(query_moment, shrink);
  const Eigen::LLT<Matrix> cholesky(query);
  if (cholesky.info() != Eigen::Success) return Status::Internal("the query moment of a head is not positive definite");
  const auto lower = cholesky.matrixL();
  // L^T S_k L, both products triangular.
  const Matrix right = key * lower;
  const Matrix product = lower.transpose() * right;
  const Eigen::SelfAdjointEigenSolver<Matrix> solver(product);
  if (solver.info() != Eigen::Success) return Status::Internal("the eigenvectors of a head's moments were not found");
  // Rising in Eigen. What rounding makes negative is as good as nothing: the ridges keep true eigenvalues far above this.
  const Vector lambda = solver.eigenvalues().reverse();
  const Vector root = lambda.cwiseMax(1e-12 * lambda[0]).array().pow(.25);
  if (!(lambda[0] > 0)) return Status::Internal("the moments of a head are not positive");
  const Matrix vectors = solver.eigenvectors().rowwise().reverse();
  Basis basis;
  basis.forward = root.cwiseInverse().asDiagonal() * (lower * vectors).transpose();
  basis.inverse = lower.transpose().solve(vectors) * root.asDiagonal();
  return basis;
}

// Rotates the coordinates [begin, begin + count) and makes their mean square over the keys 1.
void FinishSegment(const Matrix& key, int begin, int count, Basis* basis) {
  auto forward = basis->forward.middleRows(begin, count);
  auto inverse = basis->inverse.middleCols(begin, count);
  const double scale = 1 / std::sqrt((forward * key).cwiseProduct(forward).sum() / count);
  const Matrix rotation = RotationMatrix(count);
  forward = (scale * rotation * forward).eval();
  inverse = (1 / scale * inverse * rotation.transpose()).eval();
}

StatusOr<KeyTransform> Make(const HeadMoments& moments, TransformKind kind, double shrink, bool use_mean, bool two_segments) {
  const int width = moments.width;
  const Eigen::Map<const Vector> mean(moments.mean.data(), width);
  Matrix key = View(moments.key_covariance, width);
  // Without the mean, and nothing else that takes it away, it is a part of what is coded.
  if (!use_mean && !moments.group_means) key += mean * mean.transpose();
  const Matrix query = View(moments.query_moment, width);

  Basis basis;
  if (kind == TransformKind::kHadamard) {
    basis = {Matrix::Identity(width, width), Matrix::Identity(width, width)};
  } else if (kind == TransformKind::kDiagonal) {
    basis = DiagonalBasis(key, query);
  } else {
    StatusOr<Basis> full = FullBasis(key, query, shrink);
    if (!full.ok()) return full.status();
    basis = std::move(*full);
  }

  KeyTransform transform;
  transform.width = width;
  transform.split = kind == TransformKind::kFull && two_segments ? FirstSegment(width) : width;
  // Floored: a segment in which keys do not vary must not be blown up until rounding fills it.
  const double variance = key.diagonal().cwiseMax(0).mean();
  if (variance > 0) {
    key.diagonal().array() += kLeastVariance * variance;
  } else {
    key.setIdentity();
  }
  FinishSegment(key, 0, transform.split, &basis);
  if (transform.split < width) FinishSegment(key, transform.split, width - transform.split, &basis);
  if (!basis.forward.cast<float>().allFinite() || !basis.inverse.cast<float>().allFinite()) {
    return Status::Invalid("the moments of a head are beyond the range of float");
  }
  transform.mean.assign(static_cast<size_t>(width), 0.0f);
  if (use_mean) std::transform(moments.mean.begin(), moments.mean.end(), transform.mean.begin(), [](double x) { return float(x); });
  transform.forward = Floats(basis.forward);
  transform.inverse = Floats(basis.inverse);
  transform.query = Floats(basis.inverse.transpose());
  return transform;
}

}  // namespace

StatusOr<KeyTransform> MakeTransform(const HeadMoments& moments, TransformKind kind, double shrink, bool use_mean, bool two_segments) {
  if (Status status = Check(moments, kind, shrink); !status.ok()) return status;
  try {  // Eigen reports a failed allocation so
    return Make(moments, kind, shrink, use_mean, two_segments);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("no memory for the key transform of a head of width " + std::to_string(moments.width));
  }
}

double NoiseRatio(const HeadMoments& moments, const KeyTransform& transform) {
  const auto width = static_cast<Eigen::Index>(moments.width);
  const auto trace = [&](const std::vector<float>& basis, const std::vector<double>& moment) {
    const Matrix rows = Eigen::Map<const Eigen::MatrixXf>(basis.data(), width, width).cast<double>();
    return (rows * View(moment, moments.width)).cwiseProduct(rows).sum();
  };
  const double plain = View(moments.query_moment, moments.width).trace() * View(moments.key_covariance, moments.width).trace();
  return plain > 0 ? trace(transform.query, moments.query_moment) * trace(transform.forward, moments.key_covariance) / plain : 1;
}

}  // namespace swivel
