#include "cli/calibration_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <string_view>
#include <thread>
#include <utility>

#include "base/hash.h"
#include "llama/capture.h"
#include "math/rotation.h"

namespace swivel::cli {
namespace {

// Of the time of a chunk, how much the model takes; the rest are moments. Measured on S; only the time left depends on it.
constexpr double kModelShare = .85;

struct Job {
  const CapturedRows* keys;
  const CapturedRows* queries;
  size_t head;  // KV head
  int sliding_window;
  HeadMoments* into;
};

Status RunJob(const Job& job, int num_tokens) {
  const auto tokens = static_cast<size_t>(num_tokens);
  const size_t group = job.queries->heads.size() / job.keys->heads.size();
  AttentionWindow window;
  window.width = job.keys->width;
  window.num_keys = window.num_queries = num_tokens;
  window.keys = job.keys->head(job.head, tokens).data();
  window.group = static_cast<int>(group);
  window.queries = job.queries->head(job.head * group, tokens).data();
  window.logit_scale = job.queries->logit_scale;
  window.sliding_window = job.sliding_window;
  window.num_sinks = kCalibrationSinks;
  return AddWindow(window, job.into);
}

// Every job has moments of its own, so threads share a counter and nothing else. This thread works too, and reports.
Status RunJobs(const std::vector<Job>& jobs, int num_tokens, int threads, const std::function<void(size_t)>& done) {
  std::vector<Status> results(jobs.size());
  std::atomic<size_t> next{0}, finished{0};
  const auto work = [&](bool reports) {
    size_t reported = 0;
    for (size_t i = next++; i < jobs.size(); i = next++) {
      results[i] = RunJob(jobs[i], num_tokens);
      const size_t now = ++finished;
      if (!reports) continue;
      done(now - reported);
      reported = now;
    }
  };
  std::vector<std::thread> others;
  for (int i = 1; i < threads && static_cast<size_t>(i) < jobs.size(); ++i) others.emplace_back(work, false);
  work(true);
  for (std::thread& other : others) other.join();
  for (size_t i = 0; i < jobs.size(); ++i) {
    if (results[i].ok()) continue;
    return Status(results[i].code(), fmt::format("layer {}, KV head {}: {}", jobs[i].keys->layer, jobs[i].head, results[i].message()));
  }
  return {};
}

}  // namespace

StatusOr<std::vector<std::vector<Token>>> PlanChunks(const std::vector<Token>& tokens, int chunk_tokens, int most_chunks, bool adds_bos,
                                                     Token bos) {
  const auto taken = static_cast<size_t>(chunk_tokens - (adds_bos ? 1 : 0));
  const size_t available = tokens.size() / taken;
  if (available == 0) {
    return Status::Invalid(fmt::format("the text has {} tokens, fewer than one chunk of -c {}; give more text with -f, or a smaller -c",
                                       tokens.size(), chunk_tokens));
  }
  const size_t wanted = std::min(available, static_cast<size_t>(most_chunks));
  std::vector<std::vector<Token>> chunks;
  for (size_t i = 0; i < wanted; ++i) {
    const auto begin = tokens.begin() + static_cast<std::ptrdiff_t>(i * available / wanted * taken);
    std::vector<Token> chunk;
    if (adds_bos) chunk.push_back(bos);
    chunk.insert(chunk.end(), begin, begin + static_cast<std::ptrdiff_t>(taken));
    chunks.push_back(std::move(chunk));
  }
  return chunks;
}

uint64_t HashOfChunks(const std::vector<std::vector<Token>>& chunks) {
  std::vector<Token> all;
  for (const std::vector<Token>& chunk : chunks) all.insert(all.end(), chunk.begin(), chunk.end());
  return Hash64({reinterpret_cast<const char*>(all.data()), all.size() * sizeof(Token)});
}

StatusOr<std::vector<LayerMoments>> EmptyLayers(const gguf::ModelShape& shape) {
  if (shape.mla) return Status::Unsupported("models with latent attention keep V inside K, which no key transform serves");
  std::vector<LayerMoments> layers;
  for (const gguf::CachedLayer& layer : shape.layers) {
    if (layer.k_width % 16 != 0 || layer.k_width > kMaxRotationWidth) {
      return Status::Unsupported(fmt::format("layer {} has heads of width {}; key transforms are made for multiples of 16 up to {}",
                                             layer.layer, layer.k_width, kMaxRotationWidth));
    }
    const HeadMoments empty = EmptyMoments(layer.k_width, /*group_means=*/true);
    layers.push_back({layer.layer, layer.k_width, std::vector<HeadMoments>(static_cast<size_t>(layer.heads_kv), empty)});
  }
  return layers;
}

StatusOr<std::vector<std::vector<int>>> LayerGroups(const gguf::ModelShape& shape, int chunk_tokens, int64_t most_bytes) {
  std::vector<std::vector<int>> groups;
  int64_t bytes = 0;
  for (const gguf::CachedLayer& layer : shape.layers) {
    const int64_t own = int64_t{layer.heads_kv + layer.heads_q} * layer.k_width * chunk_tokens * static_cast<int64_t>(sizeof(float));
    if (own > most_bytes) {
      return Status::OutOfMemory(
          fmt::format("keys and queries of one layer take {} MiB for chunks of -c {}; there are {}; take a smaller -c", own >> 20,
                      chunk_tokens, most_bytes >> 20));
    }
    if (groups.empty() || bytes + own > most_bytes) {
      groups.emplace_back();
      bytes = 0;
    }
    groups.back().push_back(layer.layer);
    bytes += own;
  }
  return groups;
}

Status AddChunk(const Model& model, const gguf::ModelShape& shape, const std::vector<Token>& chunk,
                const std::vector<std::vector<int>>& groups, int threads, const std::string& label, Progress* progress,
                Calibration* calibration) {
  Calibration result = *calibration;
  const auto share = 1 / static_cast<double>(groups.size());
  for (const std::vector<int>& group : groups) {
    CaptureOptions options;
    options.layers = group;
    options.queries = true;
    options.values = false;
    options.threads = threads;
    size_t last = 0;
    StatusOr<std::vector<CapturedRows>> captured = CaptureAttention(model, chunk, options, [&](size_t done) {
      progress->Advance(kModelShare * share * static_cast<double>(done - last) / static_cast<double>(chunk.size()),
                        label + ": running the model");
      last = done;
    });
    if (!captured.ok()) return captured.status();

    std::vector<Job> jobs;
    for (size_t i = 0; i + 1 < captured->size(); i += 2) {  // by layer, K then Q
      const CapturedRows &keys = (*captured)[i], &queries = (*captured)[i + 1];
      const auto in_shape = std::find_if(shape.layers.begin(), shape.layers.end(), [&](const auto& l) { return l.layer == keys.layer; });
      const auto layer = std::find_if(result.layers.begin(), result.layers.end(), [&](const auto& l) { return l.layer == keys.layer; });
      const bool fits = keys.kind == 'k' && queries.kind == 'q' && keys.layer == queries.layer && keys.width == queries.width &&
                        in_shape != shape.layers.end() && layer != result.layers.end() && layer->width == keys.width &&
                        layer->heads.size() == keys.heads.size() && queries.heads.size() % keys.heads.size() == 0;
      if (!fits) return Status::Internal(fmt::format("layer {} of the graph is not what the header of the model says", keys.layer));
      for (size_t head = 0; head < keys.heads.size(); ++head)
        jobs.push_back({&keys, &queries, head, in_shape->window, &layer->heads[head]});
    }
    if (captured->size() != 2 * group.size()) {
      return Status::Internal(fmt::format("{} layers with keys and queries were asked for, {} came", group.size(), captured->size() / 2));
    }
    const Status status = RunJobs(jobs, static_cast<int>(chunk.size()), threads, [&](size_t done) {
      progress->Advance((1 - kModelShare) * share * static_cast<double>(done) / static_cast<double>(jobs.size()), label + ": moments");
    });
    if (!status.ok()) return status;
  }
  result.num_chunks += 1;
  result.num_tokens += static_cast<int64_t>(chunk.size());
  *calibration = std::move(result);
  return {};
}

}  // namespace swivel::cli
