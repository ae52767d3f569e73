#include "eval/tasks_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace swivel {
namespace {

class ContextSpeaker : public Speaker {
 public:
  ContextSpeaker(Context& context, int micro_batch) : context_(context), micro_batch_(micro_batch) {}

  void Forget() override {
    context_.Clear();
    position_ = 0;
  }
  StatusOr<Token> Feed(std::span<const Token> tokens) override {
    while (!tokens.empty()) {
      const size_t count = std::min(tokens.size(), static_cast<size_t>(micro_batch_));
      Status status = context_.Decode(tokens.first(count), position_, count == tokens.size() ? 1 : 0);
      if (!status.ok()) return status;
      position_ += static_cast<int>(count);
      tokens = tokens.subspan(count);
    }
    return static_cast<Token>(ArgMax(std::span<const float>(context_.Logits(0), static_cast<size_t>(context_.model().vocab_size()))));
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
  std::vector<Sheet> sheets;
  std::string unit;  // in the store
  std::string not_measured;
};

std::vector<Job> Plan(const std::vector<Task>& tasks, const TaskVocabulary& vocabulary, std::span<const Token> text, int context_tokens) {
  std::vector<Job> jobs;
  for (const Task task : tasks) {
    Job job{task, {}, {}, {}};
    int generated = 0;
    switch (task) {
      case Task::kCopy:
        job.sheets = CopySheets(vocabulary);
        break;
      case Task::kNeedle:
        job.sheets = NeedleSheets(vocabulary, text, context_tokens);
        break;
      case Task::kJson:
        job.sheets = JsonSheets(vocabulary);
        generated = kJsonTokens;
        break;
      case Task::kRepeat:
        job.sheets = RepeatSheets(vocabulary, text, context_tokens);
        generated = kRepeatTokens;
        break;
    }
    int longest = 0;
    for (const Sheet& sheet : job.sheets) longest = std::max(longest, SheetTokens(sheet, generated));
    if (job.sheets.empty() || longest > context_tokens) {
      job.not_measured = fmt::format("a context of {} tokens is too short for it", context_tokens);
    }
    job.unit = fmt::format("task {} 1", TaskName(task));  // the number changes with the prompts
    jobs.push_back(std::move(job));
  }
  return jobs;
}

}  // namespace

Status EvaluateTasks(ModelPair& models, std::span<const Token> text, const std::vector<Task>& tasks, const QualityOptions& options,
                     Store* store, Progress* progress, QualityReport* report) {
  if (tasks.empty()) return {};
  StatusOr<Model*> stock = models.For(report->caches[0].cache);
  if (!stock.ok()) return stock.status();
  const TaskVocabulary vocabulary = VocabularyOf(**stock);
  const std::vector<Job> jobs = Plan(tasks, vocabulary, text, options.context_tokens);
  ContextOptions context_options;
  context_options.context_tokens = options.context_tokens;
  context_options.batch_tokens = context_options.micro_batch_tokens = options.micro_batch;
  context_options.threads = options.threads;

  double work = 0;
  for (const Job& job : jobs) {
    for (const Sheet& sheet : job.sheets) work += SheetTokens(sheet, 0);
  }
  progress->Begin(work * static_cast<double>(report->caches.size()));
  for (size_t c = 0; c < report->caches.size(); ++c) {
    CacheQuality& quality = report->caches[c];
    if (!quality.refusal.empty()) continue;
    const std::string name = c == 0 ? kBaseName : StoreName(quality.cache);
    std::unique_ptr<Context> context;  // made when something has to be run
    for (const Job& job : jobs) {
      if (!job.not_measured.empty()) {
        TaskScore score;
        score.task = job.task;
        score.not_measured = job.not_measured;
        quality.tasks.push_back(score);
        continue;
      }
      if (store->Find(name, job.unit) == nullptr) {
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
            RunTask(job.task, job.sheets, vocabulary, speaker, [&](int tokens) { progress->Advance(tokens, label); });
        if (!outcomes.ok()) return outcomes.status();
        if (Status status = store->Add(name, job.unit, ToRecord(*outcomes)); !status.ok()) return status;
      }
      quality.tasks.push_back(ScoreTask(job.task, ToOutcomes(*store->Find(name, job.unit)), ToOutcomes(*store->Find(kBaseName, job.unit))));
    }
  }
  progress->Clear();
  return {};
}

}  // namespace swivel
