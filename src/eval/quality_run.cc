// EvaluateQuality: makes contexts in groups that fit in memory and runs what the store does not have.
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "eval/lock_step.h"
#include "eval/quality.h"
#include "eval/system_info.h"
#include "llama/layout.h"

namespace swivel {
namespace {

int64_t LogitBytes(const Model& model, int logit_batch) {
  // Once in the context's output buffer and once as the last tensor of the graph.
  return int64_t{2} * logit_batch * model.vocab_size() * static_cast<int64_t>(sizeof(float));
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

struct Member {
  std::string name;  // in the store
  std::unique_ptr<Context> context;
};

void StoreUse(const CacheUse& use, Record* record) {
  if (use.bits_per_value) record->numbers["bits_per_value"] = *use.bits_per_value;
  if (use.cache_bytes) record->numbers["cache_bytes"] = static_cast<double>(*use.cache_bytes);
}

class Runner {
 public:
  Runner(const Model& model, const CacheLayout& layout, std::span<const Token> tokens, const QualityOptions& options, Store* store,
         Progress* progress)
      : model_(model), layout_(layout), text_(tokens), options_(options), store_(store), progress_(progress) {}

  // Units that the store should have of a cache, and how many tokens each decodes.
  std::vector<std::pair<std::string, double>> UnitsOf(const std::string& name) const {
    std::vector<std::pair<std::string, double>> units;
    const bool is_floor = name == kFloorName;
    // One chunk is enough for the floor.
    for (int c = 0; c < (is_floor ? 1 : options_.chunks); ++c) units.emplace_back(ChunkUnit(c), options_.context_tokens);
    for (int step : {1, 4}) {
      if (options_.decode_tokens > 0) units.emplace_back(DecodeUnit(options_.chunks - 1, options_.decode_tokens, step), options_.context_tokens / 2.0);
    }
    for (int t = 0; t < options_.trajectories && !is_floor; ++t) {
      units.emplace_back(TrajectoryUnit(t, options_), options_.prompt_tokens() + options_.trajectory_tokens);
    }
    return units;
  }
  double Missing(const std::string& name) const {
    double tokens = 0;
    for (const auto& [unit, cost] : UnitsOf(name)) tokens += store_->Find(name, unit) == nullptr ? cost : 0;
    return tokens;
  }

  Status RunGroup(std::vector<Member>& members) {
    for (int c = 0; c < options_.chunks; ++c) {
      const std::string label = fmt::format("chunk {}/{}", c + 1, options_.chunks);
      Status status = RunUnits(members, {ChunkUnit(c)}, [&](LockStep& lock_step, int) -> StatusOr<std::vector<std::vector<Series>>> {
        StatusOr<std::vector<Series>> series = lock_step.RunChunk(Chunk(c), label);
        if (!series.ok()) return series.status();
        return std::vector<std::vector<Series>>{std::move(*series)};
      });
      if (!status.ok()) return status;
    }
    if (options_.decode_tokens > 0) {
      const int last = options_.chunks - 1, count = options_.decode_tokens;
      Status status = RunUnits(members, {DecodeUnit(last, count, 4), DecodeUnit(last, count, 1)},
                               [&](LockStep& lock_step, int floor) -> StatusOr<std::vector<std::vector<Series>>> {
                                 StatusOr<LockStep::Decoded> decoded = lock_step.RunDecode(Chunk(last), count, floor, "decode path");
                                 if (!decoded.ok()) return decoded.status();
                                 return std::vector<std::vector<Series>>{std::move(decoded->by_four), std::move(decoded->by_one)};
                               });
      if (!status.ok()) return status;
    }
    for (int t = 0; t < options_.trajectories; ++t) {
      for (Member& member : members) {
        if (member.name == kFloorName || store_->Find(member.name, TrajectoryUnit(t, options_)) != nullptr) continue;
        if (Status status = RunTrajectory(member, members[0].name, t); !status.ok()) return status;
      }
    }
    return {};
  }

 private:
  std::vector<Token> Chunk(int c) const {
    const std::span<const Token> chunk =
        text_.subspan(static_cast<size_t>(c) * static_cast<size_t>(options_.step()), static_cast<size_t>(options_.context_tokens));
    std::vector<Token> tokens(chunk.begin(), chunk.end());
    if (model_.adds_bos()) tokens[0] = model_.bos();
    return tokens;
  }

  // Whether a member should have one of the units and has it not.
  bool Misses(const Member& member, const std::vector<std::string>& units) const {
    for (const auto& [unit, cost] : UnitsOf(member.name)) {
      if (std::find(units.begin(), units.end(), unit) != units.end() && store_->Find(member.name, unit) == nullptr) return true;
    }
    return false;
  }

  // Runs what gives some units for those that miss any of them, with the base, and stores what it gave: `work` returns the series of each
  // unit and context. It gets the index of the floor among them, or -1.
  Status RunUnits(std::vector<Member>& members, const std::vector<std::string>& units,
                  const std::function<StatusOr<std::vector<std::vector<Series>>>(LockStep&, int)>& work) {
    std::vector<Member*> taking = {&members[0]};
    int floor = -1;
    for (size_t m = 1; m < members.size(); ++m) {
      if (!Misses(members[m], units)) continue;
      if (members[m].name == kFloorName) floor = static_cast<int>(taking.size());
      taking.push_back(&members[m]);
    }
    if (taking.size() == 1 && !Misses(members[0], units)) return {};
    std::vector<Context*> contexts;
    std::vector<std::map<std::string, int64_t>> before;
    for (Member* member : taking) {
      contexts.push_back(member->context.get());
      before.push_back(member->context->Counters());
    }
    LockStep lock_step(contexts, {options_.context_tokens, options_.micro_batch, options_.first_scored(), options_.threads}, progress_);
    StatusOr<std::vector<std::vector<Series>>> series = work(lock_step, floor);
    if (!series.ok()) return series.status();
    for (size_t i = 0; i < taking.size(); ++i) {
      for (size_t u = 0; u < units.size(); ++u) {
        if (store_->Find(taking[i]->name, units[u]) != nullptr) continue;
        Record record = ToRecord((*series)[u][i]);
        // Of all units together, in the record of the last.
        if (u + 1 == units.size()) AddCounters(*taking[i]->context, before[i], &record);
        // Only now: what a packed cache takes is known once a graph has shown which tensors are its own.
        StoreUse(taking[i]->context->Use(layout_), &record);
        if (Status status = store_->Add(taking[i]->name, units[u], std::move(record)); !status.ok()) return status;
      }
    }
    return {};
  }

  static void AddCounters(const Context& context, const std::map<std::string, int64_t>& before, Record* record) {
    for (const auto& [name, count] : context.Counters()) {
      const auto found = before.find(name);
      // Of a state what there is now, of events what this unit added.
      const bool from_here = !IsState(name) && found != before.end();
      record->numbers["counter." + name] = static_cast<double>(count - (from_here ? found->second : 0));
    }
  }

  // A prompt from the text, then the cache's own greedy tokens, and how many of them are the base's.
  Status RunTrajectory(Member& member, const std::string& base_name, int index) {
    const std::string unit = TrajectoryUnit(index, options_);
    const Record* written = store_->Find(base_name, unit);
    const int length = options_.prompt_tokens();
    const size_t spread = text_.size() - static_cast<size_t>(length);
    const size_t from = spread * static_cast<size_t>(index) / static_cast<size_t>(std::max(1, options_.trajectories));
    std::vector<Token> prompt(text_.begin() + static_cast<long>(from), text_.begin() + static_cast<long>(from) + length);
    if (model_.adds_bos()) prompt[0] = model_.bos();

    Context& context = *member.context;
    const std::map<std::string, int64_t> before = context.Counters();
    progress_->Advance(0, fmt::format("greedy text {}/{}  {}", index + 1, options_.trajectories, context.cache().name));
    context.Clear();
    for (int begin = 0; begin < length; begin += options_.micro_batch) {
      const int count = std::min(options_.micro_batch, length - begin);
      Status status = context.Decode(std::span<const Token>(prompt).subspan(static_cast<size_t>(begin), static_cast<size_t>(count)), begin,
                                     begin + count == length ? 1 : 0);
      if (!status.ok()) return status;
    }
    Record record;
    std::vector<float>& tokens = record.columns["tokens"];
    for (int i = 0; i < options_.trajectory_tokens; ++i) {
      const Token token = static_cast<Token>(ArgMax(std::span<const float>(context.Logits(0), static_cast<size_t>(model_.vocab_size()))));
      tokens.push_back(static_cast<float>(token));
      if (model_.EndsGeneration(token) || i + 1 == options_.trajectory_tokens) break;
      if (Status status = context.Decode(std::span<const Token>(&token, 1), length + i, 1); !status.ok()) return status;
    }
    const std::vector<float>& expected = written == nullptr ? tokens : written->columns.at("tokens");
    const auto differs = std::mismatch(tokens.begin(), tokens.end(), expected.begin(), expected.end()).first;
    record.numbers["until"] = static_cast<double>(differs - tokens.begin());
    record.numbers["length"] = static_cast<double>(expected.size());
    AddCounters(context, before, &record);
    progress_->Advance(length + options_.trajectory_tokens, "");
    return store_->Add(member.name, unit, std::move(record));
  }

  const Model& model_;
  const CacheLayout& layout_;
  std::span<const Token> text_;
  const QualityOptions& options_;
  Store* store_;
  Progress* progress_;
};

// FNV-1a of what decides which positions are scored and what is to be predicted there.
std::string HashOf(std::span<const Token> tokens, const QualityOptions& options) {
  uint64_t hash = 0xcbf29ce484222325ull;
  auto mix = [&](uint64_t value) {
    for (int byte = 0; byte < 8; ++byte) hash = (hash ^ (value >> (8 * byte) & 255)) * 0x100000001b3ull;
  };
  for (int value : {options.context_tokens, options.chunks, options.step(), options.first_scored()}) mix(static_cast<uint64_t>(value));
  for (Token token : tokens.first(static_cast<size_t>(options.TokensOf(options.chunks)))) mix(static_cast<uint64_t>(token));
  return fmt::format("{:016x}", hash);
}

CacheUse ReadUse(const Record* record) {
  CacheUse use;
  if (record == nullptr) return use;
  if (record->numbers.contains("bits_per_value")) use.bits_per_value = record->numbers.at("bits_per_value");
  if (record->numbers.contains("cache_bytes")) use.cache_bytes = static_cast<int64_t>(record->numbers.at("cache_bytes"));
  return use;
}

}  // namespace

StatusOr<QualityReport> EvaluateQuality(ModelPair& models, std::span<const Token> text, const std::vector<Candidate>& candidates,
                                        const QualityOptions& options, Store* store, Progress* progress) {
  const CacheChoice f16 = *ParseCacheChoice("f16");
  StatusOr<Model*> stock = models.For(f16);
  if (!stock.ok()) return stock.status();
  const Model& model = **stock;
  StatusOr<CacheLayout> layout = ProbeLayout(model, options.context_tokens, options.threads);
  if (!layout.ok()) return layout.status();

  ContextOptions context_options;
  context_options.context_tokens = options.context_tokens;
  context_options.batch_tokens = context_options.micro_batch_tokens = options.micro_batch;
  context_options.max_outputs = LogitBatch(model.vocab_size(), options.micro_batch);
  context_options.threads = options.threads;

  QualityReport report;
  report.chunks = options.chunks;
  report.logit_batch = context_options.max_outputs;
  report.token_hash = HashOf(text, options);
  report.caches.emplace_back();
  report.caches[0].cache = f16;
  for (const Candidate& candidate : candidates) {
    report.caches.emplace_back();
    report.caches.back().cache = candidate.cache;
    StatusOr<Model*> holder = models.For(candidate.cache);  // loads what is needed before memory is counted
    if (!holder.ok()) return holder.status();
  }

  auto make = [&](std::string name, size_t row, ContextOptions used, const NodeHook& hook) -> StatusOr<Member> {
    const CacheChoice& cache = report.caches[row].cache;
    StatusOr<Model*> holder = models.For(cache);
    if (!holder.ok()) return holder.status();
    used.hook = hook;
    StatusOr<std::unique_ptr<Context>> context = Context::Create(**holder, cache, used);
    if (!context.ok()) return context.status();
    return Member{std::move(name), std::move(*context)};
  };

  Runner runner(model, *layout, text, options, store, progress);
  const std::string base_name = kBaseName;
  const bool floor_missing = runner.Missing(kFloorName) > 0;
  std::vector<size_t> pending;  // rows of candidates of which something is missing
  double work = runner.Missing(kFloorName);
  for (size_t i = 0; i < candidates.size(); ++i) {
    const double missing = runner.Missing(StoreName(candidates[i].cache));
    if (missing > 0) pending.push_back(i + 1);
    work += missing;
  }
  // The base, the floor and the candidates; the floor is in the first group.
  const int total = 1 + (floor_missing ? 1 : 0) + static_cast<int>(pending.size());
  const int64_t context_bytes = layout->BytesAs(f16.ggml_type) + LogitBytes(model, report.logit_batch);
  const int group_size = options.max_contexts > 0 ? std::max(2, options.max_contexts) : GroupSize(context_bytes, total);
  const bool base_missing = runner.Missing(base_name) > 0;
  report.num_groups = total > 1 ? 1 + (total - 2) / (group_size - 1) : base_missing ? 1 : 0;
  report.memory_bound_bytes = report.num_groups > 0 ? context_bytes * std::min(group_size, total) : 0;
  // In each group the base runs about as much as a candidate does.
  progress->Begin(work + work / std::max(1, total - 1) * report.num_groups);

  size_t next = 0;
  for (int group = 0; group < report.num_groups; ++group) {
    std::vector<Member> members;
    StatusOr<Member> base = make(base_name, 0, context_options, {});
    if (!base.ok()) return base.status();
    members.push_back(std::move(*base));
    if (group == 0 && floor_missing) {
      ContextOptions split = context_options;
      split.micro_batch_tokens = std::max(1, report.logit_batch / 2);
      StatusOr<Member> floor = make(kFloorName, 0, split, {});
      if (!floor.ok()) return floor.status();
      members.push_back(std::move(*floor));
    }
    for (; next < pending.size() && static_cast<int>(members.size()) < group_size; ++next) {
      const size_t row = pending[next];
      const Candidate& candidate = candidates[row - 1];
      StatusOr<Member> member = make(StoreName(candidate.cache), row, context_options, candidate.hook);
      if (member.ok()) {
        members.push_back(std::move(*member));
      } else if (candidate.must_run) {
        return member.status();
      } else {
        report.caches[row].refusal = member.status().message();
      }
    }
    if (Status status = runner.RunGroup(members); !status.ok()) return status;
  }
  progress->Clear();
  for (size_t i = 0; i < report.caches.size(); ++i) {
    CacheQuality& cache = report.caches[i];
    if (!cache.refusal.empty()) continue;
    cache.use = ReadUse(store->Find(i == 0 ? base_name : StoreName(cache.cache), ChunkUnit(0)));
    cache.use.full_bytes = FullBytes(cache.cache, cache.use, *layout);
  }
  Assemble(*store, options, &report);
  for (CacheQuality& cache : report.caches) {
    if (!cache.worst) continue;
    const int64_t at = int64_t{cache.worst->chunk} * options.step() + cache.worst->position + 1;
    cache.worst->text = model.Piece(text[static_cast<size_t>(at)]);
  }
  return report;
}

}  // namespace swivel
