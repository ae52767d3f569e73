#include "eval/vector_set.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "base/random.h"
#include "eval/npy.h"

namespace swivel {
namespace {

constexpr SourceKind kKinds[] = {SourceKind::kGaussian, SourceKind::kSparse, SourceKind::kHeavy, SourceKind::kBiased};
constexpr size_t kMostColumns = 1 << 16;

// `count` different places below `width`.
std::vector<int> Places(Random& random, int width, int count) {
  std::vector<int> places;
  while (static_cast<int>(places.size()) < std::min(count, width)) {
    const int place = random.Below(width);
    if (std::find(places.begin(), places.end(), place) == places.end()) places.push_back(place);
  }
  return places;
}

float StudentT3(Random& random) {
  double square = 0;
  for (int i = 0; i < 3; ++i) {
    const double normal = random.Normal();
    square += normal * normal;
  }
  return static_cast<float>(random.Normal() / std::sqrt(square / 3));
}

bool IsZero(std::span<const float> row) {
  return std::all_of(row.begin(), row.end(), [](float value) { return value == 0; });
}

}  // namespace

const char* SourceName(SourceKind kind) {
  switch (kind) {
    case SourceKind::kGaussian:
      return "gaussian";
    case SourceKind::kSparse:
      return "sparse";
    case SourceKind::kHeavy:
      return "heavy";
    case SourceKind::kBiased:
      return "biased";
  }
  return "unknown";
}

StatusOr<SourceKind> FindSource(std::string_view name) {
  std::string names;
  for (const SourceKind kind : kKinds) {
    if (name == SourceName(kind)) return kind;
    names += std::string(names.empty() ? "" : ", ") + SourceName(kind);
  }
  return Status::Invalid(fmt::format("unknown source '{}'; accepted: {}, or a file whose name ends in .npy", name, names));
}

VectorSet MakeVectors(SourceKind kind, int width, size_t count, uint64_t seed) {
  Random random(SplitMix64(seed) ^ static_cast<uint64_t>(kind) << 32 ^ static_cast<uint64_t>(width));
  VectorSet set;
  set.source = SourceName(kind);
  set.width = width;
  set.values.resize(count * static_cast<size_t>(width));
  std::vector<float> mean(static_cast<size_t>(width));
  if (kind == SourceKind::kBiased) {
    const std::vector<int> places = Places(random, width, kBiasChannels);
    const double size = kBiasNorm / std::sqrt(static_cast<double>(places.size()));
    for (const int place : places) mean[static_cast<size_t>(place)] = static_cast<float>(random.Uniform() < 0.5 ? size : -size);
  }
  for (size_t i = 0; i < count; ++i) {
    float* row = &set.values[i * static_cast<size_t>(width)];
    if (kind == SourceKind::kSparse) {
      do {
        for (const int place : Places(random, width, std::max(1, width / 32))) row[place] = random.Normal();
      } while (IsZero({row, static_cast<size_t>(width)}));
      continue;
    }
    for (int j = 0; j < width; ++j) {
      row[j] = kind == SourceKind::kHeavy ? StudentT3(random) : random.Normal() + mean[static_cast<size_t>(j)];
    }
  }
  return set;
}

StatusOr<VectorSet> LoadVectors(const std::string& path, size_t most_rows) {
  StatusOr<NpyMatrix> matrix = ReadNpy(path, most_rows);
  if (!matrix.ok()) return matrix.status();
  if (matrix->columns > kMostColumns) {
    return Status::Invalid(fmt::format("'{}' has vectors of {} values; at most {} are read", path, matrix->columns, kMostColumns));
  }
  VectorSet set;
  set.source = path;
  set.width = static_cast<int>(matrix->columns);
  set.file_rows = matrix->file_rows;
  size_t kept = 0;  // values
  for (size_t i = 0; i < matrix->rows; ++i) {
    const std::span<const float> row(&matrix->values[i * matrix->columns], matrix->columns);
    for (size_t j = 0; j < row.size(); ++j) {
      if (std::isfinite(row[j])) continue;
      return Status::Invalid(fmt::format("'{}' holds a NaN or a value beyond the range of float32 in row {}, column {}", path, i, j));
    }
    if (IsZero(row)) {
      ++set.zero_rows;
      continue;
    }
    std::copy(row.begin(), row.end(), matrix->values.begin() + static_cast<std::ptrdiff_t>(kept));
    kept += row.size();
  }
  if (kept == 0) return Status::Invalid(fmt::format("'{}' holds zeros only: there is no error to measure", path));
  matrix->values.resize(kept);
  set.values = std::move(matrix->values);
  return set;
}

}  // namespace swivel
