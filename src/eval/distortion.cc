#include "eval/distortion.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <functional>

#include "base/random.h"
#include "cache/group_store.h"
#include "eval/metrics.h"
#include "eval/thread_team.h"
#include "eval/vector_math.h"
#include "kernel/kernels.h"

namespace swivel {
namespace {

constexpr size_t kQueries = 1024;
// Together about a thousand trials, but enough of them where there are few blocks.
constexpr size_t kTrials = 1024, kLeastTrials = 8, kMostTrials = 256;

using Clock = std::chrono::steady_clock;

ScaleMode ScaleOf(const Codec& codec, const DistortionOptions& options) { return options.scale.value_or(codec.default_scale); }

// The median time of call(i), i = 0, 1, …, in nanoseconds. Calls are so short that a neighbour on a shared machine disturbs few of them.
template <class Call>
double MedianNanoseconds(Call call) {
  constexpr double kSeconds = 0.01;
  constexpr size_t kLeast = 5, kMost = 1000;
  call(0);  // pages and tables
  std::vector<double> samples;
  for (double total = 0; samples.size() < kLeast || (total < kSeconds && samples.size() < kMost);) {
    const auto begin = Clock::now();
    call(samples.size());
    const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
    samples.push_back(1e9 * seconds);
    total += seconds;
  }
  return Median(samples);
}

}  // namespace

std::string ScaleNames(std::span<const DistortionRow> rows) {
  std::string names;
  for (const ScaleMode mode : {ScaleMode::kMatched, ScaleMode::kUnbiased, ScaleMode::kLeastSquares}) {
    const bool used = std::any_of(rows.begin(), rows.end(), [mode](const DistortionRow& row) { return row.scale == mode; });
    if (used) names += (names.empty() ? "" : ", ") + std::string(ScaleModeName(mode));
  }
  return names;
}

DistortionMeter::DistortionMeter(const VectorSet& set, uint64_t seed)
    : set_(set), num_blocks_(std::max<size_t>(1, set.rows() / kBlockRows)), seed_(seed) {
  const auto width = static_cast<size_t>(set.width);
  std::vector<double> mean(width);
  for (size_t i = 0; i < set.rows(); ++i) {
    const std::span<const float> row = set.row(i);
    norms_.push_back(std::sqrt(Dot(row, row)));
    for (size_t j = 0; j < width; ++j) mean[j] += row[j] / static_cast<double>(set.rows());
  }
  for (size_t i = 0; i < set.rows(); ++i) {
    const std::span<const float> row = set.row(i);
    centered_energy_ += SumOf(width, [&](size_t j) { return (row[j] - mean[j]) * (row[j] - mean[j]); });
  }
  Random random(SplitMix64(seed ^ 0x717565727931ull));
  for (size_t i = 0; i < kQueries; ++i) {
    std::vector<float> query(width);
    for (float& value : query) value = random.Normal();
    const double norm = std::sqrt(Dot(query, query));
    for (float& value : query) value = static_cast<float>(value / norm);
    queries_.push_back(std::move(query));
  }
  std::vector<std::span<const float>> blocks;
  for (size_t block = 0; block < num_blocks_; ++block) {
    const size_t begin = BlockBegin(block) * width, end = BlockBegin(block + 1) * width;
    blocks.emplace_back(&set.values[begin], end - begin);
  }
  softmax_ = std::make_unique<SoftmaxProbe>(blocks, set.width, std::clamp(kTrials / num_blocks_, kLeastTrials, kMostTrials), seed);
}

const std::vector<float>& DistortionMeter::Query(size_t row, int which) const {
  return queries_[SplitMix64(seed_ + row * kQueriesARow + static_cast<size_t>(which)) % kQueries];
}

Status DistortionMeter::MeasureError(const Codec& codec, const DistortionOptions& options, DistortionRow* result) const {
  const auto width = static_cast<size_t>(set_.width);
  const Kernels& kernels = KernelsFor(options.target);
  StoreShape shape;
  shape.width = set_.width;
  shape.num_heads = 1;
  shape.num_cells = static_cast<int64_t>(set_.rows());
  // The store of the plugin: rows are written and read as a cache does it.
  StatusOr<std::unique_ptr<GroupStore>> store = GroupStore::Create(codec, options.side, ScaleOf(codec, options), shape);
  if (!store.ok()) return store.status();

  const auto describe = [&](size_t i) {
    const std::span<const float> row = set_.row(i);
    const float largest = *std::max_element(row.begin(), row.end(), [](float a, float b) { return std::fabs(a) < std::fabs(b); });
    return fmt::format("(its norm is {:.3g}, its largest value {:.3g})", norms_[i], std::fabs(largest));
  };
  for (size_t begin = 0; begin < set_.rows(); begin += kGroupTokens) {
    const TokenMask tokens = TokenMask::First(static_cast<int64_t>(set_.rows() - begin));
    const TokenMask failed =
        (*store)->EncodeGroup(kernels, static_cast<int64_t>(begin) / kGroupTokens, 0, set_.row(begin).data(), width, tokens, {});
    for (int token = 0; token < kGroupTokens; ++token) {
      if (!failed.Has(token)) continue;
      const size_t i = begin + static_cast<size_t>(token);
      return Status::Unsupported(fmt::format("codec {} cannot encode vector {} {}", codec.name, i, describe(i)));
    }
  }

  std::vector<double> relative, divergences;
  double error_energy = 0;
  double exact_squares = 0, product = 0, error_squares = 0;  // of <q, x> and <q, x~ - x>, both over ||x||
  std::vector<float> decoded, error(width);
  for (size_t block = 0; block < num_blocks_; ++block) {
    const size_t begin = BlockBegin(block), end = BlockBegin(block + 1);
    decoded.resize((end - begin) * width);
    for (size_t i = begin; i < end; ++i) {
      const std::span<const float> row = set_.row(i);
      float* back = &decoded[(i - begin) * width];
      (*store)->DecodeCell(static_cast<int64_t>(i), back);
      for (size_t j = 0; j < width; ++j) error[j] = back[j] - row[j];
      const double square = Dot(error, error), norm = norms_[i];
      if (!std::isfinite(square)) {
        return Status::Unsupported(fmt::format("codec {} decodes vector {} to NaN or infinity {}", codec.name, i, describe(i)));
      }
      relative.push_back(square / (norm * norm));
      error_energy += square;
      for (int which = 0; which < kQueriesARow; ++which) {
        const std::vector<float>& query = Query(i, which);
        const double exact = Dot(query, row) / norm, wrong = Dot(query, error) / norm;
        exact_squares += exact * exact;
        product += exact * wrong;
        error_squares += wrong * wrong;
      }
    }
    softmax_->Divergences(block, decoded, &divergences);
  }

  const size_t run = relative.size();
  const MeanError mse = MeanByBlocks(relative, {&run, 1});
  result->mse = mse.mean;
  result->mse_err = mse.error;
  if (centered_energy_ > 0) result->mse_centered = error_energy / centered_energy_;
  // The regression of <q, x~> on <q, x> through the origin: its slope less one, and the variance around it.
  const double products = static_cast<double>(set_.rows()) * kQueriesARow;
  const double bias = product / exact_squares;
  const double variance = std::max(0.0, error_squares - bias * product) / products;
  result->ip_bias = bias;
  result->ip_bias_err = std::sqrt(variance / exact_squares);
  result->ip_var_times_d = static_cast<double>(width) * variance;
  if (const std::optional<MeanError> kl = softmax_->Mean(divergences)) {
    result->softmax_kl = kl->mean;
    result->softmax_kl_err = kl->error;
  }
  return {};
}

void DistortionMeter::MeasureTime(const Codec& codec, const DistortionOptions& options, DistortionRow* result) const {
  const Kernels& kernels = KernelsFor(options.target);
  const int width = set_.width;
  const size_t bytes = codec.group_bytes(width);
  const ScaleMode scale = ScaleOf(codec, options);
  // Several groups in turns: a single one would teach the branch predictor its codes. Few enough to stay in the second-level cache.
  const size_t rows_a_group = std::min<size_t>(set_.rows(), kGroupTokens);
  const size_t num_groups = std::clamp<size_t>(set_.rows() / kGroupTokens, 1, 8);
  const auto threads = static_cast<size_t>(options.threads);
  std::vector<uint8_t> groups(threads * num_groups * bytes);
  const auto encode_group = [&](auto encode_row, size_t which, uint8_t* group) {
    const float* rows = set_.row(which * rows_a_group).data();
    if (codec.encodes_groups()) {
      codec.encode_group(rows, set_.row(0).size(), TokenMask::First(static_cast<int64_t>(rows_a_group)), {}, width, options.side, group);
      return;
    }
    for (size_t i = 0; i < rows_a_group; ++i) encode_row(set_.row(which * rows_a_group + i).data(), group, static_cast<int>(i));
  };
  const double per_row = 1.0 / static_cast<double>(rows_a_group);
  const auto time_encode = [&](auto encode_row) {
    if (threads == 1) {
      return per_row * MedianNanoseconds([&](size_t call) { encode_group(encode_row, call % num_groups, &groups[call % num_groups * bytes]); });
    }
    ThreadTeam team(options.threads);
    const std::function<void(int)> work = [&](int thread) {
      for (size_t g = 0; g < num_groups; ++g) encode_group(encode_row, g, &groups[(static_cast<size_t>(thread) * num_groups + g) * bytes]);
    };
    return per_row / static_cast<double>(threads * num_groups) * MedianNanoseconds([&](size_t) { team.Run(work); });
  };
  result->threads = options.threads;
  result->encode_scalar_ns = time_encode(
      [&](const float* row, uint8_t* group, int token) { codec.encode(row, width, options.side, scale, group, token); });
  // All groups are written once, so that decoding reads what belongs there.
  const auto encode_row = [&](const float* row, uint8_t* group, int token) {
    kernels.encode(codec, row, width, options.side, scale, group, token);
  };
  result->encode_ns = time_encode(encode_row);
  for (size_t g = 0; g < num_groups; ++g) encode_group(encode_row, g, &groups[g * bytes]);

  std::vector<float> decoded(static_cast<size_t>(width));
  float kept = 0;  // a result that is used cannot be left out by the compiler
  const Frame frame = codec.frame(options.side);
  result->decode_ns = per_row * MedianNanoseconds([&](size_t call) {
                        const uint8_t* group = &groups[call % num_groups * bytes];
                        for (size_t i = 0; i < rows_a_group; ++i) {
                          codec.decode_in_frame(group, width, options.side, static_cast<int>(i), decoded.data());
                          kernels.inverse_rotate(frame, decoded.data(), width);
                          kept += decoded[0];
                        }
                      });
  [[maybe_unused]] volatile float sink = kept;
}

DistortionRow DistortionMeter::Measure(const Codec& codec, const DistortionOptions& options) const {
  DistortionRow row;
  row.codec = codec.name;
  row.source = set_.source;
  row.width = set_.width;
  row.side = options.side;
  row.vectors = set_.rows();
  if (codec.has_scale_mode) row.scale = ScaleOf(codec, options);
  if (Status status = CheckWidth(codec, set_.width); !status.ok()) {
    row.reason = status.message();
    return row;
  }
  row.bits = BitsPerValue(codec, set_.width);
  if (Status status = MeasureError(codec, options, &row); !status.ok()) {
    row.reason = status.message();
    return row;
  }
  if (options.time) MeasureTime(codec, options, &row);
  return row;
}

}  // namespace swivel
