#include "calibrate/moments.h"

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <iterator>
#include <new>
#include <string>
#include <utility>
#include <vector>

#include "codec/codec.h"

namespace swivel {
namespace {

using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
using RowView = Eigen::Map<const Rows, 0, Eigen::OuterStride<>>;
using Array = Eigen::ArrayXf;
using Symmetric = Eigen::Map<Eigen::MatrixXd>;

// Sums in float end after so many rows and go on in double: their rounding stays below the ridge of transform.cc even where one direction
// holds nearly all of the variance, as in models with a bias on K.
constexpr int kBlockRows = 128;
constexpr double kUniformShare = .25;
constexpr int kSmallestLastGroup = kGroupTokens / 2;
constexpr int kMostWidth = 4096;
// Below the largest logit; keeps probabilities out of the denormal numbers, which some processors compute slowly.
constexpr float kLeastLogit = -70;

Status Check(const AttentionWindow& w, const HeadMoments& moments) {
  if (w.width < 1 || w.width > kMostWidth || w.num_keys < 1 || w.num_queries < 0 || w.group < 1 || w.num_sinks < 0 ||
      w.sliding_window < 0) {
    return Status::Invalid("a calibration window needs a width of 1 to " + std::to_string(kMostWidth) + ", a key and a query head");
  }
  if (w.keys == nullptr || (w.queries == nullptr && w.num_queries > 0)) return Status::Invalid("a calibration window has no rows");
  if (w.visible == nullptr && w.num_queries > w.num_keys) {
    return Status::Invalid("a causal calibration window has " + std::to_string(w.num_queries) + " queries for " +
                           std::to_string(w.num_keys) + " keys");
  }
  if (moments.width != w.width) {
    return Status::Invalid("moments of width " + std::to_string(moments.width) + " cannot take a window of width " +
                           std::to_string(w.width));
  }
  return {};
}

// The double sum of float sums over blocks of rows. Lower triangle.
class BlockSum {
 public:
  explicit BlockSum(int width) : total_(Eigen::MatrixXd::Zero(width, width)), block_(width, width) {}

  template <class Derived>
  void Add(const Eigen::MatrixBase<Derived>& rows) {
    block_.setZero();
    block_.selfadjointView<Eigen::Lower>().rankUpdate(rows.transpose());
    total_.triangularView<Eigen::Lower>() += block_.cast<double>();
  }
  Eigen::MatrixXd& total() { return total_; }

 private:
  Eigen::MatrixXd total_;
  Eigen::MatrixXf block_;
};

// Weights and sums of one window.
class WindowSums {
 public:
  explicit WindowSums(const AttentionWindow& window)
      : w_(window),
        keys_(window.keys, window.num_keys, window.width, Eigen::OuterStride<>(window.key_stride != 0 ? window.key_stride : window.width)),
        counted_(Array::Ones(window.num_keys)),
        attention_(Eigen::ArrayXd::Zero(window.num_keys)),
        query_sum_(window.width) {
    if (w_.visible != nullptr) FindRanges();
    for (int j = 0; j < w_.num_keys; ++j) {
      if (j < w_.num_sinks || (w_.excluded != nullptr && w_.excluded[j] != 0)) counted_[j] = 0;
    }
  }

  Status Run(bool group_means, HeadMoments* result) {
    for (int j = 0; j < w_.num_keys; ++j) {
      if (counted_[j] != 0 && !keys_.row(j).allFinite()) return NotFinite("key", j);
    }
    for (int head = 0; head < w_.group; ++head) {
      if (Status status = AddQueries(head); !status.ok()) return status;
    }
    AddKeys(group_means, result);
    const double query_weight = query_weight_;
    result->query_weight = query_weight;
    if (query_weight > 0) Store(query_sum_.total() / query_weight, &result->query_moment);
    return {};
  }

 private:
  static Status NotFinite(const char* what, int row) {
    return Status::Invalid("calibration: " + std::string(what) + " " + std::to_string(row) +
                           " of the window holds values that are not finite");
  }

  static void Store(const Eigen::MatrixXd& lower, std::vector<double>* matrix) {
    Symmetric(matrix->data(), lower.rows(), lower.cols()) = lower.selfadjointView<Eigen::Lower>();
  }

  const uint8_t* SeenBy(int i) const { return w_.visible + static_cast<size_t>(i) * static_cast<size_t>(w_.num_keys); }

  // What lies outside of the first and the last visible key costs nothing: half of all, where the mask is a causal one.
  void FindRanges() {
    for (int i = 0; i < w_.num_queries; ++i) {
      const uint8_t *seen = SeenBy(i), *end = seen + w_.num_keys;
      const auto is_seen = [](uint8_t s) { return s != 0; };
      const auto first = std::find_if(seen, end, is_seen) - seen;
      const auto behind = std::find_if(std::reverse_iterator(end), std::reverse_iterator(seen + first), is_seen).base() - seen;
      ranges_.emplace_back(static_cast<int>(first), static_cast<int>(behind));
    }
  }

  // The keys [first, last) outside of which query i sees none.
  std::pair<int, int> Range(int i) const {
    if (w_.visible != nullptr) return ranges_[static_cast<size_t>(i)];
    const int own = w_.num_keys - w_.num_queries + i;
    return {w_.sliding_window > 0 ? std::max(0, own + 1 - w_.sliding_window) : 0, own + 1};
  }

  // Turns logits of the keys from `first` on into probabilities; false when the query sees nothing.
  bool Softmax(int i, int first, Eigen::Map<Array> row) const {
    if (row.size() == 0) return false;
    const uint8_t* seen = w_.visible == nullptr ? nullptr : SeenBy(i) + first;
    if (seen == nullptr || std::find(seen, seen + row.size(), 0) == seen + row.size()) {
      row = (row - row.maxCoeff()).max(kLeastLogit).exp();
    } else {
      float most = row[0];  // the first of a range is seen
      for (Eigen::Index j = 1; j < row.size(); ++j) {
        if (seen[j] != 0) most = std::max(most, row[j]);
      }
      // Masked after the exponential: logits of hidden keys may be larger than any seen one, so they are cut first.
      row = (row - most).max(kLeastLogit).min(0.0f).exp();
      for (Eigen::Index j = 0; j < row.size(); ++j) row[j] = seen[j] != 0 ? row[j] : 0.0f;
    }
    row /= row.sum();
    return true;
  }

  Status AddQueries(int head) {
    const ptrdiff_t stride = w_.query_stride != 0 ? w_.query_stride : w_.width;
    const ptrdiff_t head_stride = w_.query_head_stride != 0 ? w_.query_head_stride : stride * w_.num_queries;
    for (int begin = 0; begin < w_.num_queries; begin += kBlockRows) {
      const int count = std::min(kBlockRows, w_.num_queries - begin);
      const RowView queries(w_.queries + head * head_stride + begin * stride, count, w_.width, Eigen::OuterStride<>(stride));
      int first = w_.num_keys, last = 0;
      for (int i = begin; i < begin + count; ++i) {
        const auto [from, to] = Range(i);
        if (from == to) continue;
        first = std::min(first, from);
        last = std::max(last, to);
      }
      first = std::min(first, last);
      logits_.noalias() = queries * (w_.logit_scale * keys_.middleRows(first, last - first).transpose());
      weighted_ = queries;
      Array attention = Array::Zero(last - first);
      for (int i = 0; i < count; ++i) {
        if (!queries.row(i).allFinite()) return NotFinite("query", begin + i);
        const auto [from, to] = Range(begin + i);
        Eigen::Map<Array> row(from == to ? nullptr : &logits_(i, from - first), to - from);
        float weight = 0;
        if (Softmax(begin + i, from, row)) {
          row *= counted_.segment(from, to - from);
          weight = row.sum() == 0 ? 0 : std::max(1 - row.square().sum(), 0.0f);  // NaN stays NaN
          row *= 1 - row;
          attention.segment(from - first, to - from) += row;
        }
        // Logits beyond the range of float: a key or a query of absurd size.
        if (!std::isfinite(weight)) return Status::Invalid("calibration: attention logits of the window are not finite");
        query_weight_ += weight;
        weighted_.row(i) *= std::sqrt(weight);
      }
      attention_.segment(first, last - first) += attention.cast<double>();
      query_sum_.Add(weighted_);
    }
    return {};
  }

  void AddKeys(bool group_means, HeadMoments* result) {
    const double num_counted = counted_.cast<double>().sum();
    result->num_keys = static_cast<int64_t>(num_counted);
    if (num_counted == 0) return;
    const double sum = attention_.sum();
    const double share = sum > 0 ? (1 - kUniformShare) * num_counted / sum : 0, uniform = sum > 0 ? kUniformShare : 1;
    const Eigen::ArrayXd weights = (share * attention_ + uniform) * counted_.cast<double>();
    result->key_weight = weights.sum();
    result->key_weight_squares = weights.square().sum();
    Eigen::Map<Eigen::RowVectorXd> mean(result->mean.data(), w_.width);
    for (int j = 0; j < w_.num_keys; ++j) {
      if (weights[j] > 0) mean += weights[j] * keys_.row(j).cast<double>();
    }
    mean /= result->key_weight;

    // Centred before squaring: means are up to a hundred times as long as what is left of the keys without them.
    BlockSum covariance(w_.width);
    Rows rows;
    Eigen::RowVectorXd centre = mean;
    for (int begin = 0; begin < w_.num_keys;) {
      int end = std::min(begin + kGroupTokens, w_.num_keys);
      if (w_.num_keys - end < kSmallestLastGroup) end = w_.num_keys;
      if (group_means) {
        double count = 0;
        centre.setZero();
        for (int j = begin; j < end; ++j) {
          if (counted_[j] == 0) continue;
          centre += keys_.row(j).cast<double>();
          ++count;
        }
        if (count > 0) centre /= count;
      }
      const Eigen::RowVectorXf centre_float = centre.cast<float>();
      rows.resize(end - begin, w_.width);
      for (int j = begin; j < end; ++j) {
        if (weights[j] > 0) {
          rows.row(j - begin) = static_cast<float>(std::sqrt(weights[j])) * (keys_.row(j) - centre_float);
        } else {
          rows.row(j - begin).setZero();
        }
      }
      covariance.Add(rows);
      begin = end;
    }
    Store(covariance.total() / result->key_weight, &result->key_covariance);
  }

  const AttentionWindow& w_;
  const RowView keys_;
  Array counted_;             // 1, or 0 where a key is excluded
  Eigen::ArrayXd attention_;  // sum of p (1 - p) over the queries so far
  BlockSum query_sum_;
  double query_weight_ = 0;
  std::vector<std::pair<int, int>> ranges_;  // of queries whose keys are told by `visible`
  Rows logits_, weighted_;
};

}  // namespace

HeadMoments EmptyMoments(int width, bool group_means) {
  HeadMoments moments;
  moments.width = width;
  moments.group_means = group_means;
  const auto values = static_cast<size_t>(width);
  moments.mean.assign(values, 0);
  moments.key_covariance.assign(values * values, 0);
  moments.query_moment.assign(values * values, 0);
  return moments;
}

// Chan, Golub, LeVeque: variances around two means join by adding the square of the difference of the means.
Status MergeMoments(const HeadMoments& from, HeadMoments* into) {
  if (from.width != into->width || from.group_means != into->group_means) {
    return Status::Invalid("moments of different widths or with different centring cannot be merged");
  }
  const auto width = static_cast<size_t>(from.width);
  const double keys = from.key_weight + into->key_weight, queries = from.query_weight + into->query_weight;
  const double key_share = keys > 0 ? from.key_weight / keys : 0, query_share = queries > 0 ? from.query_weight / queries : 0;
  const double between = from.group_means ? 0 : key_share * (1 - key_share);
  for (size_t i = 0; i < width; ++i) {
    for (size_t j = 0; j < width; ++j) {
      const double delta = (from.mean[i] - into->mean[i]) * (from.mean[j] - into->mean[j]);
      double& key = into->key_covariance[i * width + j];
      double& query = into->query_moment[i * width + j];
      key += key_share * (from.key_covariance[i * width + j] - key) + between * delta;
      query += query_share * (from.query_moment[i * width + j] - query);
    }
  }
  for (size_t i = 0; i < width; ++i) into->mean[i] += key_share * (from.mean[i] - into->mean[i]);
  into->num_keys += from.num_keys;
  into->key_weight = keys;
  into->key_weight_squares += from.key_weight_squares;
  into->query_weight = queries;
  return {};
}

Status AddWindow(const AttentionWindow& window, HeadMoments* moments) {
  if (Status status = Check(window, *moments); !status.ok()) return status;
  try {  // Eigen reports a failed allocation so
    HeadMoments added = EmptyMoments(window.width, moments->group_means);
    if (Status status = WindowSums(window).Run(moments->group_means, &added); !status.ok()) return status;
    return MergeMoments(added, moments);
  } catch (const std::bad_alloc&) {
    return Status::OutOfMemory("no memory for the moments of a calibration window");
  }
}

}  // namespace swivel
