#include "eval/quality.h"

#include <algorithm>
#include <memory>
#include <utility>

#include <fmt/format.h>

#include "eval/lock_step.h"
#include "eval/system_info.h"
#include "llama/layout.h"

namespace swivel {
namespace {

Agreement Agree(const Series& series) {
  Agreement agreement;
  if (series.kld.empty()) return agreement;
  agreement.kld = Summarize(series.kld, series.runs);
  agreement.same_top1 = MeanByBlocks(series.same_top1, series.runs);
  return agreement;
}

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
  quality->prefill = Agree(member.prefill);
  quality->decode = Agree(member.decode);
  quality->perplexity = Perplexity(member.prefill.nll, member.prefill.runs);
  std::vector<double> difference(base.nll.size());
  for (size_t i = 0; i < difference.size(); ++i) difference[i] = member.prefill.nll[i] - base.nll[i];
  quality->log_ppl_ratio = MeanByBlocks(difference, base.runs);
}

}  // namespace

StatusOr<QualityReport> EvaluateQuality(ModelPair& models, std::span<const Token> text, const std::vector<Candidate>& candidates,
                                        const QualityOptions& options, Progress* progress) {
  const CacheChoice f16 = *ParseCacheChoice("f16");
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
  const int64_t context_bytes = layout->BytesAs(f16.ggml_type) + LogitBytes(model);
  const int group_size = options.max_contexts > 0 ? std::max(2, options.max_contexts) : GroupSize(context_bytes, total);
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
      split.micro_batch_tokens = report.logit_batch / 2;
      StatusOr<Member> floor = make_member(f16, split);
      if (!floor.ok()) return floor.status();
      members.push_back(std::move(*floor));
    }
    const size_t first_candidate = members.size();
    for (; next_candidate < candidates.size() && static_cast<int>(members.size()) < group_size; ++next_candidate) {
      StatusOr<Member> member = make_member(candidates[next_candidate].cache, context_options);
      if (member.ok()) {
        rows.push_back(next_candidate + 1);
        members.push_back(std::move(*member));
      } else if (candidates[next_candidate].must_run) {
        return member.status();
      } else {
        report.caches[next_candidate + 1].refusal = member.status().message();
      }
    }

    LockStep lock_step(members, options.context_tokens, options.threads, progress);
    for (int c = 0; c < options.chunks; ++c) {
      Status status = lock_step.RunChunk(chunk(c), fmt::format("chunk {}/{}", c + 1, options.chunks));
      if (!status.ok()) return status;
    }
    if (options.decode_tokens > 0) {
      Status status = lock_step.RunDecode(chunk(options.chunks - 1), options.decode_tokens, /*batched=*/group == 0 ? 1 : -1);
      if (!status.ok()) return status;
    }
    if (group == 0) {
      report.caches[0].use = members[0].context->Use(*layout);
      report.caches[0].perplexity = Perplexity(members[0].prefill.nll, members[0].prefill.runs);
      report.floor = Agree(members[1].prefill);
      report.floor_decode = Agree(members[1].decode);
    }
    for (size_t i = 0; i < rows.size(); ++i) {
      report.caches[rows[i]].use = members[first_candidate + i].context->Use(*layout);
      Finish(members[0].prefill, members[first_candidate + i], &report.caches[rows[i]]);
    }
  }
  progress->Clear();
  return report;
}

}  // namespace swivel
