// Runs tasks on a model with each cache, one context at a time.
#ifndef SWIVEL_EVAL_TASKS_RUN_H_
#define SWIVEL_EVAL_TASKS_RUN_H_

#include <span>
#include <vector>

#include "eval/progress.h"
#include "eval/quality.h"
#include "eval/tasks.h"

namespace swivel {

// For each of report.caches, the base first; those that were refused are left out. `text` is what prompts are made of. What the store has
// is not run again. Fills report->caches[].tasks with a score for each of `tasks`.
Status EvaluateTasks(ModelPair& models, std::span<const Token> text, const std::vector<Task>& tasks, const QualityOptions& options,
                     Store* store, Progress* progress, QualityReport* report);

}  // namespace swivel

#endif  // SWIVEL_EVAL_TASKS_RUN_H_
