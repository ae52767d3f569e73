// Contexts that take the same tokens in turn, each compared with the first while the logits are in memory.
#ifndef SWIVEL_EVAL_LOCK_STEP_H_
#define SWIVEL_EVAL_LOCK_STEP_H_

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/metrics.h"
#include "eval/progress.h"
#include "eval/series.h"
#include "llama/context.h"

namespace swivel {

// Positions per batch with logits: as many as fit in 128 MiB for this vocabulary, a power of two from 16 to 512, at most `micro_batch`
// (or the power of two below it).
int LogitBatch(int vocab_size, int micro_batch = 512);

struct LockStepOptions {
  int context_tokens = 2048;
  int micro_batch = 128;
  int score_from = 1024;  // the first position of a chunk that is scored
  int threads = 1;
};

// One series a context and call; [0] is the base's, whose divergence is 0.
class LockStep {
 public:
  // contexts[0] is the base. They and `progress` must outlive this.
  LockStep(std::vector<Context*> contexts, const LockStepOptions& options, Progress* progress);

  // Decodes a chunk of context_tokens in micro-batches and scores score_from … context_tokens-2: the last position's next token is not
  // in the chunk.
  StatusOr<std::vector<Series>> RunChunk(std::span<const Token> tokens, const std::string& label);

  // Of the decode path: the second-to-last `decode_tokens` of a chunk four at a time, the last as many one at a time.
  struct Decoded {
    std::vector<Series> by_four, by_one;
  };
  // Prefills what comes before those, then decodes them, each time with the text's own tokens. The context at `batched` (-1: none) takes
  // them in large batches instead: its series say how far llama.cpp's kernels for one query and for many differ.
  StatusOr<Decoded> RunDecode(std::span<const Token> tokens, int decode_tokens, int batched, const std::string& label);

 private:
  // Where the logits of one position are and where its values go.
  struct Place {
    int logits_row, base_row;  // in the last Decode() of the context, of the base
    size_t row;                // in the series
  };
  Status Prefill(std::span<const Token> tokens, const std::string& label);
  // tokens[first … first+decode_tokens-1], `step` at a time.
  StatusOr<std::vector<Series>> Decode(std::span<const Token> tokens, int first, int decode_tokens, int step, int batched,
                                       const std::string& label);
  void Score(size_t context, const Place& place, Token next, Series* series);

  std::vector<Context*> contexts_;
  LockStepOptions options_;
  Progress* progress_;
  size_t vocab_;
  // Of the rows of the base's current batch.
  std::vector<double> base_lse_;
  std::vector<TopTokens> base_top_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_LOCK_STEP_H_
