#include "eval/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <numeric>
#include <utility>

#include "eval/output_file.h"
#include "eval/store.h"

namespace swivel {
namespace {

using Json = nlohmann::json;

std::optional<double> NumberAt(const Json& object, const char* key) {
  if (!object.is_object() || !object.contains(key) || !object[key].is_number()) return std::nullopt;
  return object[key].get<double>();
}
std::string TextAt(const Json& object, const char* key) {
  return object.contains(key) && object[key].is_string() ? object[key].get<std::string>() : "";
}
const Json& ObjectAt(const Json& object, const char* key) {
  static const Json kNone;
  return object.contains(key) ? object[key] : kNone;
}

using Figure = std::optional<double> SavedCache::*;
struct NamedFigure {
  const char* name;
  Figure figure;
  double sign;  // 1 where more is worse
};
constexpr std::array<NamedFigure, 6> kFigures = {{{"kld", &SavedCache::kld, 1},
                                                  {"kld_p99", &SavedCache::kld_p99, 1},
                                                  {"kld_max", &SavedCache::kld_max, 1},
                                                  {"decode_kld", &SavedCache::decode_kld, 1},
                                                  {"ppl", &SavedCache::log_ppl_ratio, 1},
                                                  {"top1", &SavedCache::top1, -1}}};

SavedCache ParseCache(const Json& row) {
  SavedCache cache;
  cache.kv = TextAt(row, "kv");
  cache.bits = NumberAt(row, "bits_per_value");
  const Json& kld = ObjectAt(row, "kld");
  cache.kld = NumberAt(kld, "mean");
  cache.kld_p99 = NumberAt(kld, "p99");
  cache.kld_max = NumberAt(kld, "max");
  cache.decode_kld = NumberAt(ObjectAt(row, "decode_kld"), "mean");
  cache.top1 = NumberAt(row, "same_top1");
  cache.log_ppl_ratio = NumberAt(row, "log_ppl_ratio");
  cache.kld_of_positions = DecodeFloats(TextAt(row, "kld_of_positions"));
  cache.decode_kld_of_positions = DecodeFloats(TextAt(row, "decode_kld_of_positions"));
  return cache;
}

}  // namespace

const SavedCache* SavedEvaluation::Find(const std::string& kv) const {
  const auto found = std::find_if(caches.begin(), caches.end(), [&](const SavedCache& cache) { return cache.kv == kv; });
  return found == caches.end() ? nullptr : &*found;
}

StatusOr<SavedEvaluation> ParseEvaluation(const std::string& text, const std::string& path) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object() || !json.contains("results") || !json["results"].is_array()) {
    return Status::Invalid(fmt::format("'{}' is not what swivel eval --json writes", path));
  }
  SavedEvaluation saved;
  saved.path = path;
  saved.model = TextAt(json, "model");
  saved.text = TextAt(json, "text");
  saved.weights = TextAt(json, "weights");
  saved.version = TextAt(json, "version");
  saved.token_hash = TextAt(json, "token_hash");
  saved.context_tokens = static_cast<int>(NumberAt(json, "n_ctx").value_or(0));
  saved.decode_tokens = static_cast<int>(NumberAt(json, "decode_tokens").value_or(0));
  for (const Json& run : ObjectAt(json, "runs")) {
    if (run.is_number_unsigned()) saved.runs.push_back(run.get<size_t>());
  }
  for (const Json& row : json["results"]) {
    if (row.is_object() && !TextAt(row, "kv").empty()) saved.caches.push_back(ParseCache(row));
  }
  if (saved.caches.empty()) return Status::Invalid(fmt::format("'{}' holds no results", path));
  const size_t positions = std::accumulate(saved.runs.begin(), saved.runs.end(), size_t{0});
  for (const SavedCache& cache : saved.caches) {
    if (cache.kld_of_positions.empty() || cache.kld_of_positions.size() == positions) continue;
    return Status::Invalid(fmt::format("'{}' is damaged: {} positions of {}, but its runs have {}", path, cache.kld_of_positions.size(), cache.kv,
                                       positions));
  }
  return saved;
}

StatusOr<SavedEvaluation> ReadEvaluation(const std::string& path) {
  StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  return ParseEvaluation(*text, path);
}

std::string WhyNotPaired(const SavedEvaluation& a, const SavedEvaluation& b) {
  if (a.token_hash.empty() || b.token_hash.empty()) {
    return fmt::format("{} has no figures of single tokens", a.token_hash.empty() ? a.path : b.path);
  }
  if (a.context_tokens != b.context_tokens) return fmt::format("contexts of {} and {} tokens", a.context_tokens, b.context_tokens);
  if (a.token_hash != b.token_hash) return "other tokens: another text, chunks, stride or vocabulary";
  return "";
}

StatusOr<std::vector<ComparedCache>> Compare(const SavedEvaluation& a, const SavedEvaluation& b, const std::string& kv,
                                             const std::string& with) {
  std::vector<ComparedCache> compared;
  if (!kv.empty()) {
    const std::string& other = with.empty() ? kv : with;
    for (const auto& [saved, name] : {std::pair(&a, &kv), std::pair(&b, &other)}) {
      if (saved->Find(*name) != nullptr) continue;
      std::string names;
      for (const SavedCache& cache : saved->caches) names += (names.empty() ? "" : ", ") + cache.kv;
      return Status::NotFound(fmt::format("'{}' has no cache {}; it has {}", saved->path, *name, names));
    }
    compared.push_back({a.Find(kv), b.Find(other), {}, {}});
  } else {
    for (const SavedCache& cache : a.caches) {
      const SavedCache* other = b.Find(cache.kv);
      if (other != nullptr && (cache.kld || other->kld || !cache.kld_of_positions.empty())) compared.push_back({&cache, other, {}, {}});
    }
  }
  if (compared.empty()) {
    return Status::NotFound(fmt::format("'{}' and '{}' have no cache in common; name one of each with --kv and --with", a.path, b.path));
  }
  if (!WhyNotPaired(a, b).empty()) return compared;
  for (ComparedCache& cache : compared) {
    cache.kld = ComparePaired(cache.b->kld_of_positions, cache.a->kld_of_positions, a.runs);
    if (a.decode_tokens != b.decode_tokens) continue;
    const std::array<size_t, 1> runs = {cache.a->decode_kld_of_positions.size()};
    cache.decode_kld = ComparePaired(cache.b->decode_kld_of_positions, cache.a->decode_kld_of_positions, runs);
  }
  return compared;
}

StatusOr<Limit> ParseLimit(const std::string& text) {
  const size_t equals = text.find('=');
  Limit limit;
  limit.figure = text.substr(0, equals);
  const bool known = std::any_of(kFigures.begin(), kFigures.end(), [&](const NamedFigure& named) { return limit.figure == named.name; });
  const char* begin = equals == std::string::npos ? text.data() + text.size() : text.data() + equals + 1;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, limit.most);
  if (!known || error != std::errc() || stop != end || !std::isfinite(limit.most)) {
    return Status::Invalid(
        fmt::format("--limit {} is not FIGURE=NUMBER with a figure of kld, kld_p99, kld_max, decode_kld, ppl, top1", text));
  }
  return limit;
}

std::optional<double> Excess(const ComparedCache& cache, const std::string& figure) {
  for (const NamedFigure& named : kFigures) {
    if (figure != named.name) continue;
    const std::optional<double> a = cache.a->*named.figure, b = cache.b->*named.figure;
    if (!a || !b) return std::nullopt;
    return named.sign * (*b - *a);
  }
  return std::nullopt;
}

}  // namespace swivel
