#include "eval/measure.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <span>
#include <sstream>

#include "base/random.h"
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
constexpr int kUntimedDecode = 2;  // the first decode after a prompt builds its graph anew

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
                std::to_string(request.depth), "-t", std::to_string(request.threads), "--measure-prompt", std::to_string(request.prompt),
                "--measure-generate", std::to_string(request.generate)});
  if (!child.ok()) {
    failed.failure = child.status().message();
    return failed;
  }
  if (child->exit_code != 0) {
    failed.failure =
        fmt::format("the process that measured {} ended with status {}: {}", request.kv, child->exit_code, LastLine(child->err));
    return failed;
  }
  StatusOr<Measurement> measurement = MeasurementFromJson(child->out);
  if (measurement.ok()) return *measurement;
  failed.failure = measurement.status().message();
  return failed;
}

using Field = std::optional<double> Measurement::*;

void TakeSpread(const std::vector<Measurement>& rounds, Field field, Field min, Field max, Field sd, Measurement* result) {
  std::vector<double> values;
  for (const Measurement& round : rounds) {
    if (round.*field) values.push_back(*(round.*field));
  }
  if (values.empty()) return;
  result->*field = Median(values);
  if (values.size() < 2) return;
  result->*min = *std::min_element(values.begin(), values.end());
  result->*max = *std::max_element(values.begin(), values.end());
  double mean = 0, squares = 0;
  for (const double value : values) mean += value / static_cast<double>(values.size());
  for (const double value : values) squares += (value - mean) * (value - mean);
  result->*sd = std::sqrt(squares / static_cast<double>(values.size() - 1));
}

StatusOr<std::vector<Token>> PromptTokens(const Model& model, const std::string& path, size_t needed) {
  std::vector<Token> tokens;
  if (path.empty()) {
    Random random(1);
    while (tokens.size() < needed) tokens.push_back(random.Below(model.vocab_size()));
    return tokens;
  }
  std::ifstream file(path, std::ios::binary);
  std::string text(size_t{1} << 20, '\0');  // the head is enough: a token is rarely shorter than a byte
  file.read(text.data(), static_cast<std::streamsize>(std::max<size_t>(text.size(), 1)));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(file.gcount(), 0)));
  tokens = model.Tokenize(text, /*add_special=*/true, /*parse_special=*/false);
  if (tokens.empty()) return Status::Invalid(fmt::format("'{}' holds no text", path));
  const size_t num_text = tokens.size();
  for (size_t i = 0; tokens.size() < needed; ++i) tokens.push_back(tokens[i % num_text]);
  return tokens;
}

// Appends tokens [from, from + count) at their own positions and waits until they are in the cache.
Status Feed(Context& context, std::span<const Token> tokens, int from, int count) {
  for (int done = 0; done < count; done += kMicroBatch) {
    const int batch = std::min(kMicroBatch, count - done);
    const int outputs = done + batch == count ? 1 : 0;
    const int position = from + done;
    Status status = context.Decode(tokens.subspan(static_cast<size_t>(position), static_cast<size_t>(batch)), position, outputs);
    if (!status.ok()) return status;
  }
  if (count > 0) (void)context.Logits(0);  // waits for the last batch
  return {};
}

}  // namespace

StatusOr<Measurement> MeasureHere(const MeasureRequest& request) {
  StatusOr<CacheChoice> cache = ParseCacheChoice(request.kv);
  if (!cache.ok()) return cache.status();
  ModelPair models(request.model);
  StatusOr<Model*> model = models.For(*cache);
  if (!model.ok()) return model.status();
  const int max_decode = request.generate > 0 ? request.generate + kUntimedDecode : kMaxDecode;
  ContextOptions options;
  options.context_tokens = request.depth + std::max(request.prompt, max_decode);
  StatusOr<std::vector<Token>> tokens = PromptTokens(**model, request.text, static_cast<size_t>(options.context_tokens));
  if (!tokens.ok()) return tokens.status();

  options.batch_tokens = options.micro_batch_tokens = kMicroBatch;
  options.max_outputs = 1;
  options.threads = request.threads;
  StatusOr<std::unique_ptr<Context>> made = Context::Create(**model, *cache, options);
  if (!made.ok()) return made.status();
  Context& context = **made;

  const std::span<const Token> all(*tokens);
  // Reads the weights from disk and builds both graphs, so that neither is timed.
  for (int warm : {request.prompt > 0 ? std::min(kMicroBatch, request.prompt) : std::min(64, request.depth), 1}) {
    if (Status status = Feed(context, all, 0, warm); !status.ok()) return status;
    context.Clear();
  }

  Measurement measurement;
  auto begin = std::chrono::steady_clock::now();
  if (Status status = Feed(context, all, 0, request.depth); !status.ok()) return status;
  if (request.prompt == 0) {
    measurement.prefill_tps = request.depth / SecondsSince(begin);
  } else {
    begin = std::chrono::steady_clock::now();
    if (Status status = Feed(context, all, request.depth, request.prompt); !status.ok()) return status;
    measurement.prefill_tps = request.prompt / SecondsSince(begin);
    if (!context.Truncate(request.depth)) {
      context.Clear();
      if (Status status = Feed(context, all, 0, request.depth); !status.ok()) return status;
    }
  }

  int timed = 0;
  for (int i = 0; i < max_decode; ++i) {
    if (i == kUntimedDecode) begin = std::chrono::steady_clock::now();
    const int position = request.depth + i;
    if (Status status = context.Decode(all.subspan(static_cast<size_t>(position), 1), position, 1); !status.ok()) return status;
    (void)context.Logits(0);
    if (i < kUntimedDecode) continue;
    ++timed;
    const double seconds = SecondsSince(begin);
    measurement.decode_tps = timed / seconds;
    if (request.generate == 0 && timed >= kMinDecode && seconds > 1.5) break;
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
    using M = Measurement;
    TakeSpread(samples[i], &M::prefill_tps, &M::prefill_tps_min, &M::prefill_tps_max, &M::prefill_tps_sd, &results[i]);
    TakeSpread(samples[i], &M::decode_tps, &M::decode_tps_min, &M::decode_tps_max, &M::decode_tps_sd, &results[i]);
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
