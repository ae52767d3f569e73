#include "eval/series.h"

#include <array>
#include <utility>

namespace swivel {
namespace {

using Column = std::vector<float> Series::*;
constexpr std::array<std::pair<const char*, Column>, 5> kColumns = {{{"kld", &Series::kld},
                                                                     {"nll", &Series::nll},
                                                                     {"delta_p", &Series::delta_p},
                                                                     {"same_top1", &Series::same_top1},
                                                                     {"top5_overlap", &Series::top5_overlap}}};

}  // namespace

Series::Series(size_t length) {
  for (const auto& [name, column] : kColumns) (this->*column).assign(length, 0);
  if (length > 0) runs.push_back(length);
}

void Series::Append(const Series& other) {
  for (const auto& [name, column] : kColumns) {
    (this->*column).insert((this->*column).end(), (other.*column).begin(), (other.*column).end());
  }
  runs.insert(runs.end(), other.runs.begin(), other.runs.end());
}

Record ToRecord(const Series& series) {
  Record record;
  for (const auto& [name, column] : kColumns) record.columns[name] = series.*column;
  return record;
}

Series ToSeries(const Record& record) {
  Series series;
  for (const auto& [name, column] : kColumns) {
    const auto found = record.columns.find(name);
    if (found == record.columns.end() || (column != &Series::kld && found->second.size() != series.size())) return Series();
    series.*column = found->second;
  }
  if (series.size() > 0) series.runs.push_back(series.size());
  return series;
}

std::vector<double> Widen(std::span<const float> values) { return std::vector<double>(values.begin(), values.end()); }

}  // namespace swivel
