// What `swivel eval` was asked for, and the evaluation itself without its output.
#ifndef SWIVEL_CLI_EVAL_ARGUMENTS_H_
#define SWIVEL_CLI_EVAL_ARGUMENTS_H_

#include <string>

#include "base/status.h"
#include "eval/report.h"
#include "eval/system_info.h"

namespace swivel::cli {

struct EvalArguments {
  std::string model, text, kv = "quality,balanced", weights = "as-is", reference, stock = "q8_0,q4_0", tasks = "none", json, html, state, sensitivity, depth = "0",
                           format = "md";
  int context = 2048, chunks = 3, stride = 0, score_from = 0, micro_batch = 128, threads = DefaultThreads();
  int decode_tokens = -1, trajectories = 8, trajectory_tokens = -1, rounds = 1, task_rounds = 1;
  int measure_prompt = 0, measure_generate = 0;
  bool no_speed = false, verbose = false, measure_one = false;
};

// Everything that can be wrong with the arguments is found before any work.
Status Evaluate(const EvalArguments& arguments, EvalReport* report);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_EVAL_ARGUMENTS_H_
