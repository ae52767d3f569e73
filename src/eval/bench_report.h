// Rows of `swivel bench` as text. docs/cli.md lists the keys. What was not measured is "-" in Markdown, empty in CSV, null in JSON.
#ifndef SWIVEL_EVAL_BENCH_REPORT_H_
#define SWIVEL_EVAL_BENCH_REPORT_H_

#include <string>
#include <vector>

#include "eval/bench_model.h"
#include "eval/bench_ops.h"

namespace swivel {

enum class BenchFormat { kMarkdown, kCsv, kJson, kJsonLines };

std::string BenchText(const std::vector<OpRow>& rows, const BenchOpsOptions& options, BenchFormat format);
std::string BenchText(const std::vector<ModelRow>& rows, const BenchModelOptions& options, BenchFormat format);

}  // namespace swivel

#endif  // SWIVEL_EVAL_BENCH_REPORT_H_
