#include "eval/lock_step.h"

#include <algorithm>
#include <atomic>
#include <functional>
#include <thread>

#include <fmt/format.h>

#include "eval/metrics.h"

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

int LogitBatch(int vocab_size) {
  constexpr int64_t kBytes = int64_t{128} << 20;
  int batch = kMicroBatch;
  while (batch > 16 && int64_t{batch} * vocab_size * static_cast<int64_t>(sizeof(float)) > kBytes) batch /= 2;
  return batch;
}

void Series::Resize(size_t size) {
  kld.resize(size);
  same_top1.resize(size);
  nll.resize(size);
}

LockStep::LockStep(std::vector<Member>& members, int context_tokens, int threads, Progress* progress)
    : members_(members),
      context_tokens_(context_tokens),
      threads_(threads),
      progress_(progress),
      vocab_(static_cast<size_t>(base().model().vocab_size())) {}

Status LockStep::RunChunk(std::span<const Token> tokens, const std::string& label) {
  const int half = context_tokens_ / 2;
  const int logit_batch = LogitBatch(static_cast<int>(vocab_));
  const size_t first_row = members_[0].prefill.nll.size();
  // As in llama-perplexity, the chunk's last position is left out: its next token belongs to the next chunk.
  const size_t num_rows = static_cast<size_t>(context_tokens_ - 1 - half);
  for (Member& member : members_) {
    member.context->Clear();
    member.prefill.Resize(first_row + num_rows);
    member.prefill.runs.push_back(num_rows);
  }
  for (int begin = 0, end = 0; begin < context_tokens_; begin = end) {
    const bool scored = begin >= half;
    end = scored ? std::min(context_tokens_, begin + logit_batch) : std::min(half, begin + kMicroBatch);
    const size_t count = static_cast<size_t>(end - begin);
    std::span<const Token> next;
    if (scored) next = tokens.subspan(static_cast<size_t>(begin) + 1, std::min(count, static_cast<size_t>(context_tokens_ - 1 - begin)));
    const size_t row = scored ? first_row + static_cast<size_t>(begin - half) : 0;
    Status status = Step(tokens.subspan(static_cast<size_t>(begin), count), begin, scored ? end - begin : 0, next, row, label);
    if (!status.ok()) return status;
  }
  return {};
}

Status LockStep::RunDecode(std::span<const Token> tokens, int decode_tokens, int batched) {
  const int first = context_tokens_ - decode_tokens;
  const int piece = LogitBatch(static_cast<int>(vocab_));
  for (Member& member : members_) {
    member.context->Clear();
    member.decode.Resize(static_cast<size_t>(decode_tokens));
    member.decode.runs.assign(1, static_cast<size_t>(decode_tokens));
  }
  for (int begin = 0; begin < first; begin += kMicroBatch) {
    const int end = std::min(first, begin + kMicroBatch);
    Status status = Step(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), begin, 0, {}, 0,
                         "decode path, prompt");
    if (!status.ok()) return status;
  }
  base_lse_.resize(1);
  base_top_.resize(1);
  for (int i = 0; i < decode_tokens; ++i) {
    const int position = first + i;
    // The last token has no successor here; its divergence counts all the same, likelihoods of this path are not used.
    const Token next = tokens[static_cast<size_t>(std::min(position + 1, context_tokens_ - 1))];
    for (int m = 0; m < static_cast<int>(members_.size()); ++m) {
      Member& member = members_[static_cast<size_t>(m)];
      // A piece of the batched member's logits stays in its context while the others walk through it.
      const int step = m == batched ? std::min(piece, decode_tokens - i / piece * piece) : 1;
      if (m != batched || i % piece == 0) {
        Status status = member.context->Decode(tokens.subspan(static_cast<size_t>(position), static_cast<size_t>(step)), position, step);
        if (!status.ok()) return status;
      }
      Score(member, {m == batched ? i % piece : 0, 0, static_cast<size_t>(i)}, next, member.decode);
      progress_->Advance(1, "decode path");
    }
  }
  return {};
}

// Decodes one batch in every context and scores the first next.size() rows of its logits as row, row + 1, … of the prefill series.
Status LockStep::Step(std::span<const Token> tokens, int position, int outputs, std::span<const Token> next, size_t row,
                      const std::string& label) {
  base_lse_.resize(next.size());
  base_top_.resize(next.size());
  for (Member& member : members_) {
    progress_->Advance(0, fmt::format("{}  {}", label, member.context->cache().name));
    Status status = member.context->Decode(tokens, position, outputs);
    if (!status.ok()) return status;
    ParallelFor(static_cast<int>(next.size()), threads_, [&](int i) {
      Score(member, {i, i, row + static_cast<size_t>(i)}, next[static_cast<size_t>(i)], member.prefill);
    });
    progress_->Advance(static_cast<double>(tokens.size()), "");
  }
  return {};
}

// The base's logits are read where its context keeps them: valid until its next Decode().
void LockStep::Score(Member& member, const Place& place, Token next, Series& series) {
  const size_t at = static_cast<size_t>(place.base_row);
  const bool is_base = &member == &members_[0];
  const std::span<const float> logits(member.context->Logits(place.logits_row), vocab_);
  const double lse = LogSumExp(logits);
  const size_t top = ArgMax(logits);
  if (is_base) {
    base_lse_[at] = lse;
    base_top_[at] = top;
  }
  series.nll[place.row] = lse - logits[static_cast<size_t>(next)];
  series.same_top1[place.row] = top == base_top_[at] ? 1 : 0;
  series.kld[place.row] =
      is_base ? 0 : KlDivergence(std::span<const float>(base().Logits(place.base_row), vocab_), base_lse_[at], logits, lse);
}

}  // namespace swivel
