// Lock-step evaluation: how far a model with a compressed cache is from the same model with its own f16 cache.
//
// Base and candidates are contexts in one process that see the same batches of tokens; their logits for one batch are compared while
// they are in memory. Nothing goes to disk, and no file of logits rounds them to 16 bits as llama-perplexity's does.
//
// Evaluated: the second half of every chunk of context_tokens, decoded in batches (the prefill path); and, one token at a time with
// the text's own tokens (teacher-forced), the last decode_tokens of the last chunk (the decode path, whose kernels are others).
// Chunks and BOS are llama-perplexity's, so perplexities agree with it.
#ifndef SWIVEL_EVAL_QUALITY_H_
#define SWIVEL_EVAL_QUALITY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/metrics.h"
#include "eval/progress.h"
#include "llama/cache_choice.h"
#include "llama/context.h"
#include "llama/model.h"

namespace swivel {

struct QualityOptions {
  int context_tokens = 2048;
  int chunks = 3;
  int decode_tokens = 128;  // 0: the decode path is not measured
  int threads = 1;
  int max_contexts = 0;  // that live together, at least 2; 0: as many as memory allows
};

// Of one path (prefill or decode) of one cache against the base.
struct Agreement {
  Summary kld;                          // KL(base || cache) in nats
  std::optional<MeanError> same_top1;   // share of positions whose most likely token is the base's
};

struct CacheQuality {
  CacheChoice cache;
  CacheUse use;
  std::string refusal;  // why llama.cpp cannot run this cache with this model; then nothing below is set
  Agreement prefill;    // not set for the base itself
  Agreement decode;
  std::optional<MeanError> perplexity;
  std::optional<MeanError> log_ppl_ratio;  // ln(PPL / PPL of the base), paired by position; not set for the base
};

struct QualityReport {
  std::vector<CacheQuality> caches;  // the base (stock f16) first, then the candidates in the order given
  Agreement floor;         // the base against itself with half the micro-batch: 0 where results do not depend on the split
  Agreement floor_decode;  // on the decode path's positions, the base in batches against the base token by token: llama.cpp's two kernels
  int chunks = 0;
  int num_groups = 1;             // more when not all contexts fit in memory at once; the base then runs once a group
  int logit_batch = 0;            // positions whose logits are held at once
  int64_t memory_bound_bytes = 0;  // logits and caches of the contexts that live together; weights and graph buffers excluded
};

// `tokens` hold at least options.chunks * context_tokens tokens of the text. `must_run` names candidates whose refusal ends the
// evaluation; the others (rows that are always shown) get `refusal` instead.
struct Candidate {
  CacheChoice cache;
  bool must_run = true;
};
StatusOr<QualityReport> EvaluateQuality(ModelPair& models, std::span<const Token> tokens, const std::vector<Candidate>& candidates,
                                        const QualityOptions& options, Progress* progress);

}  // namespace swivel

#endif  // SWIVEL_EVAL_QUALITY_H_
