#include "eval/quality.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <functional>
#include <memory>
#include <thread>
#include <utility>

#include <fmt/format.h>

#include "eval/system_info.h"
#include "ggml.h"
#include "llama/layout.h"

namespace swivel {
namespace {

constexpr int kMicroBatch = 512;  // llama.cpp's default
// Halving the micro-batch changes no bit of a row on the CPU and would show a floor of 0. Below 64 queries llama.cpp takes its other
// attention kernel, so that the floor shows what any kernel with another order of summation does.
constexpr int kFloorMicroBatch = 48;

// Values of one path of one context, a position each.
struct Series {
  std::vector<double> kld, same_top1, nll;
  std::vector<size_t> runs;  // lengths of consecutive stretches

  void Resize(size_t size) {
    kld.resize(size);
    same_top1.resize(size);
    nll.resize(size);
  }
  Agreement Agree() const {
    Agreement agreement;
    if (kld.empty()) return agreement;
    agreement.kld = Summarize(kld, runs);
    agreement.same_top1 = MeanByBlocks(same_top1, runs);
    return agreement;
  }
};

struct Member {
  std::unique_ptr<Context> context;
  Series prefill, decode;
};

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

// One group of contexts that live together; members[0] is the base.
class LockStep {
 public:
  LockStep(std::vector<Member>& members, const QualityOptions& options, Progress* progress)
      : members_(members), options_(options), progress_(progress), vocab_(static_cast<size_t>(base().model().vocab_size())) {}

  Status RunChunk(std::span<const Token> tokens, const std::string& label) {
    const int context_tokens = options_.context_tokens;
    const int half = context_tokens / 2;
    const int logit_batch = LogitBatch(static_cast<int>(vocab_));
    ForAll([](Member& member) { member.context->Clear(); });
    const size_t first_row = members_[0].prefill.nll.size();
    for (Member& member : members_) {
      // As in llama-perplexity, the chunk's last position is left out: its next token belongs to the next chunk.
      member.prefill.Resize(first_row + static_cast<size_t>(context_tokens - 1 - half));
      member.prefill.runs.push_back(static_cast<size_t>(context_tokens - 1 - half));
    }
    for (int begin = 0; begin < context_tokens;) {
      const bool scored = begin >= half;
      const int end = scored ? std::min(context_tokens, begin + logit_batch) : std::min(half, begin + kMicroBatch);
      const int rows = scored ? std::min(end, context_tokens - 1) - begin : 0;
      const std::span<const Token> next = rows > 0 ? tokens.subspan(static_cast<size_t>(begin) + 1, static_cast<size_t>(rows))
                                                   : std::span<const Token>();
      const size_t row = first_row + static_cast<size_t>(begin - half);
      Status status = Step(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), begin,
                           scored ? end - begin : 0, next, &Member::prefill, row, label);
      if (!status.ok()) return status;
      begin = end;
    }
    return {};
  }

  // Prefill without logits up to the last decode_tokens, then those one by one.
  Status RunDecode(std::span<const Token> tokens) {
    const int first = options_.context_tokens - options_.decode_tokens;
    ForAll([](Member& member) { member.context->Clear(); });
    for (Member& member : members_) {
      member.decode.Resize(static_cast<size_t>(options_.decode_tokens));
      member.decode.runs.assign(1, static_cast<size_t>(options_.decode_tokens));
    }
    for (int begin = 0; begin < first; begin += kMicroBatch) {
      const int end = std::min(first, begin + kMicroBatch);
      Status status = Step(tokens.subspan(static_cast<size_t>(begin), static_cast<size_t>(end - begin)), begin, 0, {}, &Member::decode, 0,
                           "decode path, prompt");
      if (!status.ok()) return status;
    }
    for (int i = 0; i < options_.decode_tokens; ++i) {
      const size_t position = static_cast<size_t>(first + i);
      // The last token has no successor; its divergence counts all the same, its likelihood is not used on this path.
      const Token next = tokens[std::min(position + 1, tokens.size() - 1)];
      Status status = Step(tokens.subspan(position, 1), first + i, 1, std::span<const Token>(&next, 1), &Member::decode,
                           static_cast<size_t>(i), "decode path");
      if (!status.ok()) return status;
    }
    return {};
  }

 private:
  const Context& base() const { return *members_[0].context; }

  void ForAll(const std::function<void(Member&)>& action) {
    for (Member& member : members_) action(member);
  }

  // Decodes one batch in every context and scores the first next.size() rows of logits into row, row + 1, … of a series.
  Status Step(std::span<const Token> tokens, int position, int outputs, std::span<const Token> next, Series Member::*series, size_t row,
              const std::string& label) {
    const int count = static_cast<int>(next.size());
    base_lse_.resize(next.size());
    base_top_.resize(next.size());
    for (Member& member : members_) {
      progress_->Advance(0, fmt::format("{}  {}", label, member.context->cache().name));
      Status status = member.context->Decode(tokens, position, outputs);
      if (!status.ok()) return status;
      ParallelFor(count, options_.threads, [&](int i) { Score(member, i, next[static_cast<size_t>(i)], member.*series, row); });
      progress_->Advance(static_cast<double>(tokens.size()), label);
    }
    return {};
  }

  // The base's logits are read where its context keeps them: valid until its next Decode(), which is the next Step().
  void Score(Member& member, int i, Token next, Series& series, size_t first_row) {
    const size_t row = first_row + static_cast<size_t>(i);
    const std::span<const float> logits(member.context->Logits(i), vocab_);
    const double lse = LogSumExp(logits);
    const size_t top = ArgMax(logits);
    if (&member == &members_[0]) {
      base_lse_[static_cast<size_t>(i)] = lse;
      base_top_[static_cast<size_t>(i)] = top;
    }
    const std::span<const float> reference(base().Logits(i), vocab_);
    series.nll[row] = lse - logits[static_cast<size_t>(next)];
    series.same_top1[row] = top == base_top_[static_cast<size_t>(i)] ? 1 : 0;
    series.kld[row] = &member == &members_[0] ? 0 : KlDivergence(reference, base_lse_[static_cast<size_t>(i)], logits, lse);
  }

  std::vector<Member>& members_;
  const QualityOptions& options_;
  Progress* progress_;
  size_t vocab_;
  std::vector<double> base_lse_;
  std::vector<size_t> base_top_;
};

int64_t LogitBytes(const Model& model) {
  // Once in the context's output buffer and once as the last tensor of the graph.
  return int64_t{2} * LogitBatch(model.vocab_size()) * model.vocab_size() * static_cast<int64_t>(sizeof(float));
}

// How many contexts may live together.
int GroupSize(int64_t context_bytes, int wanted) {
  const std::optional<int64_t> available = AvailableMemoryBytes();
  if (!available) return wanted;
  constexpr int64_t kGraphBytes = int64_t{96} << 20;  // compute buffers beside the logits, generously
  const int64_t fitting = *available * 8 / 10 / (context_bytes + kGraphBytes);
  // The base and one candidate are the least there is to compare.
  return static_cast<int>(std::clamp<int64_t>(fitting, 2, std::max(wanted, 2)));
}

void Finish(const Series& base, const Member& member, CacheQuality* quality) {
  quality->prefill = member.prefill.Agree();
  quality->decode = member.decode.Agree();
  quality->perplexity = Perplexity(member.prefill.nll, member.prefill.runs);
  std::vector<double> difference(base.nll.size());
  for (size_t i = 0; i < difference.size(); ++i) difference[i] = member.prefill.nll[i] - base.nll[i];
  quality->log_ppl_ratio = MeanByBlocks(difference, base.runs);
}

}  // namespace

int LogitBatch(int vocab_size) {
  constexpr int64_t kBytes = int64_t{128} << 20;
  int batch = kMicroBatch;
  while (batch > 16 && int64_t{batch} * vocab_size * static_cast<int64_t>(sizeof(float)) > kBytes) batch /= 2;
  return batch;
}

StatusOr<QualityReport> EvaluateQuality(ModelPair& models, std::span<const Token> text, const std::vector<Candidate>& candidates,
                                        const QualityOptions& options, Progress* progress) {
  CacheChoice f16;
  f16.name = "f16";
  f16.stock = true;
  f16.ggml_type = GGML_TYPE_F16;
  StatusOr<Model*> stock = models.For(f16);
  if (!stock.ok()) return stock.status();
  const Model& model = **stock;
  StatusOr<CacheLayout> layout = ProbeLayout(model, options.context_tokens, options.threads);
  if (!layout.ok()) return layout.status();

  ContextOptions context_options;
  context_options.context_tokens = options.context_tokens;
  context_options.batch_tokens = context_options.micro_batch_tokens = kMicroBatch;
  context_options.max_outputs = LogitBatch(model.vocab_size());
  context_options.threads = options.threads;
  auto make_member = [&](const CacheChoice& cache, const ContextOptions& used) -> StatusOr<Member> {
    StatusOr<Model*> holder = models.For(cache);
    if (!holder.ok()) return holder.status();
    StatusOr<std::unique_ptr<Context>> context = Context::Create(**holder, cache, used);
    if (!context.ok()) return context.status();
    Member member;
    member.context = std::move(*context);
    return member;
  };

  QualityReport report;
  report.chunks = options.chunks;
  report.logit_batch = context_options.max_outputs;
  report.caches.emplace_back();
  report.caches[0].cache = f16;
  for (const Candidate& candidate : candidates) {
    report.caches.emplace_back();
    report.caches.back().cache = candidate.cache;
    StatusOr<Model*> holder = models.For(candidate.cache);  // loads what is needed before memory is counted
    if (!holder.ok()) return holder.status();
  }

  std::vector<Token> tokens(text.begin(), text.begin() + static_cast<long>(options.chunks) * options.context_tokens);
  if (model.adds_bos()) {
    for (int c = 0; c < options.chunks; ++c) tokens[static_cast<size_t>(c) * static_cast<size_t>(options.context_tokens)] = model.bos();
  }
  auto chunk = [&](int c) {
    const size_t length = static_cast<size_t>(options.context_tokens);
    return std::span<const Token>(tokens).subspan(static_cast<size_t>(c) * length, length);
  };

  // The base, the floor and the candidates; the floor is in the first group.
  const int total = 2 + static_cast<int>(candidates.size());
  const int64_t context_bytes = layout->BytesAs(GGML_TYPE_F16) + LogitBytes(model);
  const int group_size = GroupSize(context_bytes, total);
  report.num_groups = 1 + (total - 2) / (group_size - 1);
  report.memory_bound_bytes = context_bytes * std::min(group_size, total);
  progress->Begin((total + report.num_groups - 1.0) * options.context_tokens * (options.chunks + (options.decode_tokens > 0 ? 1 : 0)));

  size_t next_candidate = 0;
  for (int group = 0; group == 0 || next_candidate < candidates.size(); ++group) {
    std::vector<Member> members;
    std::vector<size_t> rows;  // in report.caches, of members behind the base and the floor
    StatusOr<Member> base = make_member(f16, context_options);
    if (!base.ok()) return base.status();
    members.push_back(std::move(*base));
    if (group == 0) {
      ContextOptions split = context_options;
      split.micro_batch_tokens = std::min(kFloorMicroBatch, report.logit_batch / 2);
      StatusOr<Member> floor = make_member(f16, split);
      if (!floor.ok()) return floor.status();
      members.push_back(std::move(*floor));
    }
    const size_t first_candidate = members.size();
    for (; next_candidate < candidates.size() && static_cast<int>(members.size()) < group_size; ++next_candidate) {
      StatusOr<Member> member = make_member(candidates[next_candidate].cache, context_options);
      CacheQuality& quality = report.caches[next_candidate + 1];
      if (member.ok()) {
        quality.use = member->context->Use(*layout);
        rows.push_back(next_candidate + 1);
        members.push_back(std::move(*member));
      } else if (candidates[next_candidate].must_run) {
        return member.status();
      } else {
        quality.refusal = member.status().message();
      }
    }

    LockStep lock_step(members, options, progress);
    for (int c = 0; c < options.chunks; ++c) {
      Status status = lock_step.RunChunk(chunk(c), fmt::format("chunk {}/{}", c + 1, options.chunks));
      if (!status.ok()) return status;
    }
    if (options.decode_tokens > 0) {
      Status status = lock_step.RunDecode(chunk(options.chunks - 1));
      if (!status.ok()) return status;
    }
    if (group == 0) {
      report.caches[0].use = members[0].context->Use(*layout);
      report.caches[0].perplexity = Perplexity(members[0].prefill.nll, members[0].prefill.runs);
      report.floor = members[1].prefill.Agree();
      report.floor_decode = members[1].decode.Agree();
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      Finish(members[0].prefill, members[first_candidate + i], &report.caches[rows[i]]);
    }
  }
  progress->Clear();
  return report;
}

}  // namespace swivel
