#include "eval/lock_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <thread>
#include <utility>

namespace swivel {
namespace {

void ParallelFor(int count, int threads, const std::function<void(int)>& work) {
  std::atomic<int> next{0};
  auto drain = [&] {
    for (int i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::thread> helpers;
  for (int i = 1; i < std::min(threads, count); ++i) helpers.emplace_back(drain);
  drain();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace

int LogitBatch(int vocab_size, int micro_batch) {
  constexpr int64_t kBytes = int64_t{128} << 20;
  int batch = 512;
  while (batch > 16 && (batch > micro_batch || int64_t{batch} * vocab_size * static_cast<int64_t>(sizeof(float)) > kBytes)) batch /= 2;
  return batch;
}

LockStep::LockStep(std::vector<Context*> contexts, const LockStepOptions& options, Progress* progress)
    : contexts_(std::move(contexts)),
      options_(options),
      progress_(progress),
      vocab_(static_cast<size_t>(contexts_[0]->model().vocab_size())) {}

StatusOr<std::vector<Series>> LockStep::RunChunk(std::span<const Token> tokens, const std::string& label) {
  const int end = options_.context_tokens, from = options_.score_from;
  const int logit_batch = LogitBatch(static_cast<int>(vocab_), options_.micro_batch);
  std::vector<Series> series(contexts_.size(), Series(static_cast<size_t>(end - 1 - from)));
  if (Status status = Prefill(tokens.first(static_cast<size_t>(from)), label); !status.ok()) return status;
  for (int begin = from; begin < end; begin += logit_batch) {
    const int count = std::min(logit_batch, end - begin);
    // As in llama-perplexity, the chunk's last position is left out.
    const int scored = std::min(count, end - 1 - begin);
    base_lse_.resize(static_cast<size_t>(count));
    base_top_.resize(static_cast<size_t>(count));
    for (size_t c = 0; c < contexts_.size(); ++c) {
      progress_->Advance(0, fmt::format("{}  {}", label, contexts_[c]->cache().name));
      Status status = contexts_[c]->Decode(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), begin, count);
      if (!status.ok()) return status;
      ParallelFor(scored, options_.threads, [&](int i) {
        Score(c, {i, i, static_cast<size_t>(begin - from + i)}, tokens[static_cast<size_t>(begin + i + 1)], &series[c]);
      });
      progress_->Advance(count, "");
    }
  }
  return series;
}

StatusOr<LockStep::Decoded> LockStep::RunDecode(std::span<const Token> tokens, int decode_tokens, int batched, const std::string& label) {
  const int first = options_.context_tokens - 2 * decode_tokens;
  if (Status status = Prefill(tokens.first(static_cast<size_t>(first)), label + ", prompt"); !status.ok()) return status;
  StatusOr<std::vector<Series>> by_four = Decode(tokens, first, decode_tokens, 4, batched, label + ", 4 at a time");
  if (!by_four.ok()) return by_four.status();
  StatusOr<std::vector<Series>> by_one = Decode(tokens, first + decode_tokens, decode_tokens, 1, batched, label + ", 1 at a time");
  if (!by_one.ok()) return by_one.status();
  return Decoded{std::move(*by_four), std::move(*by_one)};
}

StatusOr<std::vector<Series>> LockStep::Decode(std::span<const Token> tokens, int first, int decode_tokens, int step, int batched,
                                               const std::string& label) {
  const int piece = LogitBatch(static_cast<int>(vocab_), options_.micro_batch);
  std::vector<Series> series(contexts_.size(), Series(static_cast<size_t>(decode_tokens)));
  base_lse_.resize(static_cast<size_t>(step));
  base_top_.resize(static_cast<size_t>(step));
  for (int i = 0; i < decode_tokens; i += step) {
    for (size_t c = 0; c < contexts_.size(); ++c) {
      // A piece of the batched context's logits stays in it while the others walk through it.
      const int size = static_cast<int>(c) == batched ? piece : step;
      if (i % size == 0) {
        const int count = std::min(size, decode_tokens - i);
        Status status = contexts_[c]->Decode(tokens.subspan(static_cast<size_t>(first + i), static_cast<size_t>(count)), first + i, count);
        if (!status.ok()) return status;
      }
      for (int j = 0; j < std::min(step, decode_tokens - i); ++j) {
        // The last token has no successor here; its divergence counts all the same, likelihoods of this path are not used.
        const size_t next = static_cast<size_t>(std::min(first + i + j + 1, options_.context_tokens - 1));
        Score(c, {i % size + j, j, static_cast<size_t>(i + j)}, tokens[next], &series[c]);
      }
      progress_->Advance(std::min(step, decode_tokens - i), label);
    }
  }
  return series;
}

Status LockStep::Prefill(std::span<const Token> tokens, const std::string& label) {
  for (Context* context : contexts_) context->Clear();
  const int end = static_cast<int>(tokens.size());
  for (int begin = 0; begin < end; begin += options_.micro_batch) {
    const int count = std::min(options_.micro_batch, end - begin);
    for (Context* context : contexts_) {
      progress_->Advance(0, fmt::format("{}  {}", label, context->cache().name));
      Status status = context->Decode(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), begin, 0);
      if (!status.ok()) return status;
      progress_->Advance(count, "");
    }
  }
  return {};
}

// The base's logits are read where its context keeps them: valid until its next Decode().
void LockStep::Score(size_t context, const Place& place, Token next, Series* series) {
  const size_t at = static_cast<size_t>(place.base_row);
  const size_t target = static_cast<size_t>(next);
  const std::span<const float> base(contexts_[0]->Logits(place.base_row), vocab_);
  const std::span<const float> logits(contexts_[context]->Logits(place.logits_row), vocab_);
  const double lse = LogSumExp(logits);
  const TopTokens top = TopOf(logits);
  if (context == 0) {
    base_lse_[at] = lse;
    base_top_[at] = top;
  }
  series->nll[place.row] = static_cast<float>(lse - logits[target]);
  series->delta_p[place.row] = static_cast<float>(std::exp(logits[target] - lse) - std::exp(base[target] - base_lse_[at]));
  series->same_top1[place.row] = top[0] == base_top_[at][0] ? 1 : 0;
  series->top5_overlap[place.row] = static_cast<float>(TopOverlap(top, base_top_[at]));
  series->kld[place.row] = context == 0 ? 0 : static_cast<float>(KlDivergence(base, base_lse_[at], logits, lse));
}

}  // namespace swivel
