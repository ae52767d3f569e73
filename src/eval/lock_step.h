// A group of contexts that take the same tokens in turn, each compared with the first.
#ifndef SWIVEL_EVAL_LOCK_STEP_H_
#define SWIVEL_EVAL_LOCK_STEP_H_

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/progress.h"
#include "llama/context.h"

namespace swivel {

inline constexpr int kMicroBatch = 512;  // llama.cpp's default

// Positions per batch with logits: as many as fit in 128 MiB for this vocabulary, a power of two from 16 to 512.
int LogitBatch(int vocab_size);

// Values of one path of one context, a position each.
struct Series {
  std::vector<double> kld, same_top1, nll;  // nll: -ln p(next token)
  std::vector<size_t> runs;                 // lengths of consecutive stretches

  void Resize(size_t size);
};

struct Member {
  std::unique_ptr<Context> context;
  Series prefill, decode;
};

class LockStep {
 public:
  // members[0] is the base; at least one member. `members` and `progress` must outlive this.
  LockStep(std::vector<Member>& members, int context_tokens, int threads, Progress* progress);

  // Decodes a chunk of context_tokens in batches; appends its second half to the members' prefill series.
  Status RunChunk(std::span<const Token> tokens, const std::string& label);
  // Prefills a chunk up to its last `decode_tokens` and decodes those one by one into the members' decode series. The member at
  // `batched` (-1: none) decodes them in batches instead: its series says how far llama.cpp's kernels for one query and for many differ.
  Status RunDecode(std::span<const Token> tokens, int decode_tokens, int batched);

 private:
  // Where the logits of one position are and where its values go.
  struct Place {
    int logits_row, base_row;  // in the last Decode() of the member, of the base
    size_t row;                // in the series
  };
  Status Step(std::span<const Token> tokens, int position, int outputs, std::span<const Token> next, size_t row, const std::string& label);
  void Score(Member& member, const Place& place, Token next, Series& series);
  const Context& base() const { return *members_[0].context; }

  std::vector<Member>& members_;
  int context_tokens_;
  int threads_;
  Progress* progress_;
  size_t vocab_;
  std::vector<double> base_lse_;  // of the rows of the current batch
  std::vector<size_t> base_top_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_LOCK_STEP_H_
