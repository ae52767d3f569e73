// What `swivel tune` was asked for, and the search itself without its output.
#ifndef SWIVEL_CLI_TUNE_RUN_H_
#define SWIVEL_CLI_TUNE_RUN_H_

#include <optional>
#include <string>

#include "base/status.h"
#include "eval/system_info.h"
#include "tune/report.h"

namespace swivel::cli {

struct TuneArguments {
  std::string model, text, output, state, bytes, context, weights = "as-is", calibration = "self", format = "md";
  std::optional<double> bits, kld;
  int chunk_tokens = 2048, chunks = 6, threads = DefaultThreads();
  double minutes = 20;
  bool verbose = false;
};

// Measures, chooses and writes the file. Everything that can be wrong with the arguments is found before any work.
Status Tune(const TuneArguments& arguments, TuneReport* report);

}  // namespace swivel::cli

#endif  // SWIVEL_CLI_TUNE_RUN_H_
