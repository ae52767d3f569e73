#include "eval/tasks_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace swivel {
namespace {

// Tokens of the longest answer and one more, generously.
constexpr int kMostWanted = 32;

class ContextSpeaker : public Speaker {
 public:
  ContextSpeaker(Context& context, int micro_batch) : context_(context), micro_batch_(micro_batch) {}

  void Forget() override {
    context_.Clear();
    position_ = 0;
  }
  bool Keep(int count) override {
    if (!context_.Truncate(count)) return false;
    position_ = count;
    return true;
  }
  StatusOr<std::vector<Said>> Feed(std::span<const Token> tokens, int wanted) override {
    std::vector<Said> said;
    while (!tokens.empty()) {
      const size_t count = std::min(tokens.size(), static_cast<size_t>(micro_batch_));
      const int later = static_cast<int>(tokens.size() - count);
      const int outputs = std::clamp(wanted - later, 0, static_cast<int>(count));
      Status status = context_.Decode(tokens.first(count), position_, outputs);
      if (!status.ok()) return status;
      for (int row = 0; row < outputs; ++row) {
        const std::span<const float> logits(context_.Logits(row), static_cast<size_t>(context_.model().vocab_size()));
        // The token that comes next may be the first of the next micro-batch.
        const size_t next = count - static_cast<size_t>(outputs) + static_cast<size_t>(row) + 1;
        const double log_p = next < tokens.size() ? logits[static_cast<size_t>(tokens[next])] - LogSumExp(logits) : 0;
        said.push_back({static_cast<Token>(ArgMax(logits)), static_cast<float>(log_p)});
      }
      position_ += static_cast<int>(count);
      tokens = tokens.subspan(count);
    }
    return said;
  }

 private:
  Context& context_;
  int micro_batch_;
  int position_ = 0;
};

TaskVocabulary VocabularyOf(const Model& model) {
  TaskVocabulary vocabulary;
  vocabulary.tokenize = [&](std::string_view text) { return model.Tokenize(text, /*add_special=*/false, /*parse_special=*/false); };
  vocabulary.piece = [&](Token token) { return model.Piece(token); };
  vocabulary.ends = [&](Token token) { return model.EndsGeneration(token); };
  if (model.adds_bos()) vocabulary.bos = model.bos();
  return vocabulary;
}

struct Job {
  Task task;
  std::vector<std::vector<Sheet>> rounds;
  std::string not_measured;

  std::string Unit(size_t round) const { return fmt::format("task {} 4 {}", TaskName(task), round); }  // the number changes with the prompts
};

// One of copy, needle and json.
Job Plan(Task task, const TaskVocabulary& vocabulary, std::span<const Token> text, const QualityOptions& options) {
  Job job{task, {}, {}};
  int longest = 0;
  for (int round = 0; round < options.task_rounds; ++round) {
    job.rounds.push_back(task == Task::kCopy     ? CopySheets(vocabulary, round)
                         : task == Task::kNeedle ? NeedleSheets(vocabulary, text, options.context_tokens, round)
                                                 : JsonSheets(vocabulary, round));
    if (job.rounds.back().empty()) job.not_measured = fmt::format("a context of {} tokens is too short for it", options.context_tokens);
    for (const Sheet& sheet : job.rounds.back()) longest = std::max(longest, SheetTokens(sheet) + (task == Task::kJson ? kJsonTokens : 0));
  }
  if (longest > options.context_tokens) job.not_measured = fmt::format("it needs a context of {} tokens", longest);
  return job;
}

void Append(const Outcomes& more, Outcomes* outcomes) {
  outcomes->passed.insert(outcomes->passed.end(), more.passed.begin(), more.passed.end());
  outcomes->value.insert(outcomes->value.end(), more.value.begin(), more.value.end());
  outcomes->log_p.insert(outcomes->log_p.end(), more.log_p.begin(), more.log_p.end());
}

// All rounds of a task that are in the store.
Outcomes Stored(const Store& store, const std::string& name, const Job& job) {
  Outcomes outcomes;
  for (size_t round = 0; round < job.rounds.size(); ++round) {
    if (const Record* record = store.Find(name, job.Unit(round))) Append(ToOutcomes(*record), &outcomes);
  }
  return outcomes;
}

// How much the greedy texts repeat themselves; no items where there are none.
Outcomes Repetition(const Store& store, const std::string& name, const QualityOptions& options) {
  Outcomes outcomes;
  for (int t = 0; t < options.trajectories; ++t) {
    const Record* record = store.Find(name, TrajectoryUnit(t, options));
    if (record == nullptr || !record->columns.contains("tokens")) return {};
    std::vector<Token> tokens;
    for (const float token : record->columns.at("tokens")) tokens.push_back(static_cast<Token>(token));
    outcomes.passed.push_back(0);
    outcomes.log_p.push_back(0);
    outcomes.value.push_back(static_cast<float>(RepeatedGrams(tokens, kRepeatGram)));
  }
  return outcomes;
}

}  // namespace

Status EvaluateTasks(ModelPair& models, std::span<const Token> text, const std::vector<Task>& tasks, const QualityOptions& options,
                     Store* store, Progress* progress, QualityReport* report) {
  if (tasks.empty()) return {};
  StatusOr<Model*> stock = models.For(report->caches[0].cache);
  if (!stock.ok()) return stock.status();
  const TaskVocabulary vocabulary = VocabularyOf(**stock);
  if (vocabulary.bos && !text.empty() && text[0] == *vocabulary.bos) text = text.subspan(1);  // prompts bring their own
  std::vector<Job> jobs;
  for (const Task task : tasks) jobs.push_back(task == Task::kRepeat ? Job{task, {}, {}} : Plan(task, vocabulary, text, options));
  ContextOptions context_options;
  context_options.context_tokens = options.context_tokens;
  context_options.batch_tokens = context_options.micro_batch_tokens = options.micro_batch;
  context_options.max_outputs = std::min(kMostWanted, options.micro_batch);
  context_options.threads = options.threads;

  double work = 0;
  for (const Job& job : jobs) {
    for (const std::vector<Sheet>& sheets : job.rounds) {
      for (const Sheet& sheet : sheets) work += SheetTokens(sheet);
    }
  }
  progress->Begin(work * static_cast<double>(report->caches.size()));
  for (size_t c = 0; c < report->caches.size(); ++c) {
    CacheQuality& quality = report->caches[c];
    if (!quality.refusal.empty()) continue;
    const std::string name = c == 0 ? kBaseName : StoreName(quality.cache);
    std::unique_ptr<Context> context;  // made when something has to be run
    for (const Job& job : jobs) {
      if (job.task == Task::kRepeat) {
        quality.tasks.push_back(ScoreTask(job.task, Repetition(*store, name, options), Repetition(*store, kBaseName, options)));
        if (options.trajectories == 0) quality.tasks.back().not_measured = "--greedy is 0: no text is written";
        continue;
      }
      if (!job.not_measured.empty()) {
        TaskScore score;
        score.task = job.task;
        score.not_measured = job.not_measured;
        quality.tasks.push_back(score);
        continue;
      }
      for (size_t round = 0; round < job.rounds.size(); ++round) {
        if (store->Find(name, job.Unit(round)) != nullptr) continue;
        if (context == nullptr) {
          StatusOr<Model*> model = models.For(quality.cache);
          if (!model.ok()) return model.status();
          StatusOr<std::unique_ptr<Context>> made = Context::Create(**model, quality.cache, context_options);
          if (!made.ok()) return made.status();
          context = std::move(*made);
        }
        ContextSpeaker speaker(*context, options.micro_batch);
        const std::string label = fmt::format("task {}  {}", TaskName(job.task), quality.cache.name);
        progress->Advance(0, label);
        StatusOr<Outcomes> outcomes =
            RunTask(job.task, job.rounds[round], vocabulary, speaker, [&](int tokens) { progress->Advance(tokens, label); });
        if (!outcomes.ok()) return outcomes.status();
        if (Status status = store->Add(name, job.Unit(round), ToRecord(*outcomes)); !status.ok()) return status;
      }
      quality.tasks.push_back(ScoreTask(job.task, Stored(*store, name, job), Stored(*store, kBaseName, job)));
    }
  }
  progress->Clear();
  return {};
}

}  // namespace swivel
