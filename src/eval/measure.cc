#include "eval/measure.h"

#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <sstream>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "eval/child_process.h"
#include "eval/metrics.h"
#include "eval/system_info.h"
#include "llama/cache_choice.h"
#include "llama/context.h"
#include "llama/layout.h"
#include "llama/model.h"

namespace swivel {
namespace {

constexpr int kMicroBatch = 512;
constexpr int kMaxDecode = 128;
constexpr int kMinDecode = 16;

double SecondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

template <class T>
void Read(const nlohmann::json& json, const char* key, std::optional<T>* value) {
  const auto found = json.find(key);
  if (found != json.end() && found->is_number()) *value = found->get<T>();
}

template <class T>
nlohmann::json OrNull(const std::optional<T>& value) {
  return value ? nlohmann::json(*value) : nlohmann::json();
}

std::string LastLine(std::string text) {
  while (!text.empty() && text.back() == '\n') text.pop_back();
  const size_t begin = text.rfind('\n');
  return begin == std::string::npos ? text : text.substr(begin + 1);
}

Measurement MeasureInChild(const std::string& program, const MeasureRequest& request) {
  Measurement failed;
  StatusOr<ChildResult> child =
      RunChild({program, "eval", "--measure-one", "-m", request.model, "--kv", request.kv, "-f", request.text, "--depth",
                std::to_string(request.depth), "-t", std::to_string(request.threads)});
  if (!child.ok()) {
    failed.failure = child.status().message();
    return failed;
  }
  if (child->exit_code != 0) {
    failed.failure = fmt::format("the process that measured {} ended with status {}: {}", request.kv, child->exit_code,
                                 LastLine(child->err));
    return failed;
  }
  StatusOr<Measurement> measurement = MeasurementFromJson(child->out);
  if (measurement.ok()) return *measurement;
  failed.failure = measurement.status().message();
  return failed;
}

std::optional<double> MedianOf(const std::vector<Measurement>& rounds, std::optional<double> Measurement::*field) {
  std::vector<double> values;
  for (const Measurement& round : rounds) {
    if (round.*field) values.push_back(*(round.*field));
  }
  if (values.empty()) return std::nullopt;
  return Median(values);
}

}  // namespace

StatusOr<Measurement> MeasureHere(const MeasureRequest& request) {
  StatusOr<CacheChoice> cache = ParseCacheChoice(request.kv);
  if (!cache.ok()) return cache.status();
  std::ifstream file(request.text, std::ios::binary);
  std::string text(size_t{1} << 20, '\0');  // the head is enough: a token is rarely shorter than a byte
  file.read(text.data(), static_cast<std::streamsize>(std::max<size_t>(text.size(), 1)));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));

  ModelPair models(request.model);
  StatusOr<Model*> model = models.For(*cache);
  if (!model.ok()) return model.status();
  std::vector<Token> tokens = (*model)->Tokenize(text, /*add_special=*/true, /*parse_special=*/false);
  if (tokens.empty()) return Status::Invalid(fmt::format("'{}' holds no text", request.text));
  const size_t num_text = tokens.size();
  const size_t needed = static_cast<size_t>(request.depth + kMaxDecode);
  for (size_t i = 0; tokens.size() < needed; ++i) tokens.push_back(tokens[i % num_text]);

  ContextOptions options;
  options.context_tokens = request.depth + kMaxDecode;
  options.batch_tokens = options.micro_batch_tokens = kMicroBatch;
  options.max_outputs = 1;
  options.threads = request.threads;
  StatusOr<std::unique_ptr<Context>> made = Context::Create(**model, *cache, options);
  if (!made.ok()) return made.status();
  Context& context = **made;

  const std::span<const Token> all(tokens);
  // Reads the weights from disk and builds both graphs, so that neither is timed.
  for (int warm : {std::min(64, request.depth), 1}) {
    if (Status status = context.Decode(all.subspan(0, static_cast<size_t>(warm)), 0, 1); !status.ok()) return status;
    context.Clear();
  }

  Measurement measurement;
  auto begin = std::chrono::steady_clock::now();
  for (int position = 0; position < request.depth; position += kMicroBatch) {
    const int count = std::min(kMicroBatch, request.depth - position);
    const int outputs = position + count == request.depth ? 1 : 0;
    Status status = context.Decode(all.subspan(static_cast<size_t>(position), static_cast<size_t>(count)), position, outputs);
    if (!status.ok()) return status;
  }
  (void)context.Logits(0);  // waits for the last batch
  measurement.prefill_tps = request.depth / SecondsSince(begin);

  // Two untimed: the first decode after a prompt builds its graph anew. Then at least kMinDecode tokens and 1.5 s, if there is room.
  int timed = 0;
  for (int i = 0; i < kMaxDecode; ++i) {
    if (i == 2) begin = std::chrono::steady_clock::now();
    const int position = request.depth + i;
    if (Status status = context.Decode(all.subspan(static_cast<size_t>(position), 1), position, 1); !status.ok()) return status;
    (void)context.Logits(0);
    if (i < 2) continue;
    ++timed;
    const double seconds = SecondsSince(begin);
    measurement.decode_tps = timed / seconds;
    if (timed >= kMinDecode && seconds > 1.5) break;
  }
  measurement.resident_bytes = context.Use(CacheLayout{}).resident_bytes;
  measurement.peak_rss_bytes = PeakRssBytes();
  return measurement;
}

StatusOr<std::vector<Measurement>> MeasureAll(const std::vector<MeasureRequest>& requests, int rounds, Progress* progress) {
  StatusOr<std::string> program = OwnExecutable();
  if (!program.ok()) return program.status();
  std::vector<std::vector<Measurement>> samples(requests.size());
  progress->Begin(static_cast<double>(requests.size()) * rounds);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < requests.size(); ++i) {
      progress->Advance(0, fmt::format("speed at depth {}, round {}/{}: {}", requests[i].depth, round + 1, rounds, requests[i].kv));
      samples[i].push_back(MeasureInChild(*program, requests[i]));
      progress->Advance(1, "");
    }
  }
  progress->Clear();
  std::vector<Measurement> results(requests.size());
  for (size_t i = 0; i < requests.size(); ++i) {
    results[i].prefill_tps = MedianOf(samples[i], &Measurement::prefill_tps);
    results[i].decode_tps = MedianOf(samples[i], &Measurement::decode_tps);
    for (const Measurement& sample : samples[i]) {
      if (sample.peak_rss_bytes) results[i].peak_rss_bytes = std::max(results[i].peak_rss_bytes.value_or(0), *sample.peak_rss_bytes);
      if (sample.resident_bytes) results[i].resident_bytes = std::max(results[i].resident_bytes.value_or(0), *sample.resident_bytes);
      if (!sample.failure.empty()) results[i].failure = sample.failure;
    }
  }
  return results;
}

std::string ToJson(const Measurement& measurement) {
  return nlohmann::json{{"prefill_tps", OrNull(measurement.prefill_tps)},
                        {"decode_tps", OrNull(measurement.decode_tps)},
                        {"peak_rss_bytes", OrNull(measurement.peak_rss_bytes)},
                        {"resident_bytes", OrNull(measurement.resident_bytes)}}
      .dump();
}

StatusOr<Measurement> MeasurementFromJson(const std::string& text) {
  const nlohmann::json json = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return Status::Internal("the process that measured did not answer in JSON");
  Measurement measurement;
  Read(json, "prefill_tps", &measurement.prefill_tps);
  Read(json, "decode_tps", &measurement.decode_tps);
  Read(json, "peak_rss_bytes", &measurement.peak_rss_bytes);
  Read(json, "resident_bytes", &measurement.resident_bytes);
  return measurement;
}

}  // namespace swivel
