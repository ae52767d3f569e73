// How far a model with a compressed cache is from the same model with its own f16 cache.
//
// Base and candidates are contexts in one process that see the same batches of tokens; their logits for one batch are compared while
// they are in memory. Logits never go to disk: what is kept is a few floats a position (eval/store.h), from which all figures come.
//
// Chunks and BOS are llama-perplexity's, so perplexities agree with it. docs/evaluation.md defines the paths and the figures.
#ifndef SWIVEL_EVAL_QUALITY_H_
#define SWIVEL_EVAL_QUALITY_H_

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/metrics.h"
#include "eval/progress.h"
#include "eval/series.h"
#include "eval/store.h"
#include "eval/tasks.h"
#include "llama/cache_choice.h"
#include "llama/context.h"
#include "llama/model.h"

namespace swivel {

struct QualityOptions {
  int context_tokens = 2048;
  int chunks = 3;
  int stride = 0;           // between the beginnings of chunks; 0: context_tokens
  int score_from = 0;       // the first position of a chunk that is scored; 0: the middle
  int micro_batch = 128;    // of all prompts; a whole group of a packed cache, see docs/evaluation.md
  int decode_tokens = 128;  // one at a time, and as many four at a time; at most a quarter of the context; 0: the decode path is not measured
  int trajectories = 8;     // greedy continuations; 0: not measured
  int trajectory_tokens = 64;
  int task_rounds = 1;  // sets of prompts of the tasks
  int threads = 1;
  int max_contexts = 0;  // that live together, at least 2; 0: as many as memory allows

  int prompt_tokens() const { return std::min(context_tokens / 2, 512); }  // of a greedy continuation
  int first_scored() const { return score_from > 0 ? score_from : context_tokens / 2; }
  int step() const { return stride > 0 ? stride : context_tokens; }
  // Tokens of text that so many chunks need.
  int64_t TokensOf(int num_chunks) const { return int64_t{num_chunks - 1} * step() + context_tokens; }
};

// Of one path of one cache against the base.
struct Agreement {
  Summary kld;                                          // KL(base || cache) in nats
  std::optional<MeanError> same_top1;                   // share of positions whose most likely token is the base's
  std::optional<MeanError> top5_overlap, mean_delta_p;  // shared part of the five most likely; q(next) - p(next)
  std::vector<PositionBucket> by_position;              // of the KLD
  Series series;
};

// Where a position is and what stands there.
struct TextPlace {
  int chunk = 0, position = 0;
  std::string text;  // the token that the model should have predicted there
};

// Greedy continuations: how long a cache writes what f16 writes.
struct TrajectoryFigures {
  int count = 0, tokens = 0;  // continuations, and the most tokens of each
  std::vector<int> until;     // equal tokens of each; its length where nothing differed
  std::vector<int> length;    // tokens that the base wrote
  double median_until = 0;
  int never = 0;  // continuations that stayed equal to the end
};

struct CacheQuality {
  CacheChoice cache;
  CacheUse use;
  std::string refusal;  // why llama.cpp cannot run this cache with this model; then nothing below is set
  Agreement prefill;    // the base's holds its likelihoods only
  Agreement decode, decode4;
  std::optional<TextPlace> worst;  // of the prefill path
  std::optional<MeanError> perplexity;
  std::optional<MeanError> log_ppl_ratio;  // ln(PPL / PPL of the base), paired by position; not set for the base
  std::optional<TrajectoryFigures> trajectories;
  std::vector<TaskScore> tasks;             // those that were asked for
  std::map<std::string, int64_t> counters;  // what the plugin did meanwhile; of states the most there was
};

struct QualityReport {
  std::vector<CacheQuality> caches;  // the base (stock f16) first, then the candidates in the order given
  Agreement floor;                   // the base against itself with half the micro-batch, first chunk: 0 where results do not depend on the split
  Agreement floor_decode;  // on the decode path's positions, the base in batches against the base token by token: llama.cpp's two kernels
  int chunks = 0;
  int num_groups = 0;              // more than one when not all contexts fit in memory at once; the base then runs once a group
  int logit_batch = 0;             // positions whose logits are held at once
  int64_t memory_bound_bytes = 0;  // logits and caches of the contexts that live together; weights and graph buffers excluded
  // That are scored on the prefill path.
  size_t positions() const { return caches.empty() ? 0 : caches[0].prefill.series.size(); }
  std::string token_hash;          // of the tokens and positions that were scored: equal ones can be compared position by position
};

// `must_run` names candidates whose refusal ends the evaluation; the others (rows that are always shown) get `refusal` instead.
struct Candidate {
  CacheChoice cache;
  bool must_run = true;
  NodeHook hook = {};
};

// `tokens` hold at least options.TokensOf(options.chunks). What `store` already has is not measured again.
StatusOr<QualityReport> EvaluateQuality(ModelPair& models, std::span<const Token> tokens, const std::vector<Candidate>& candidates,
                                        const QualityOptions& options, Store* store, Progress* progress);

// The figures of what `store` holds. Needs no model; `report` has the caches and the number of chunks.
void Assemble(const Store& store, const QualityOptions& options, QualityReport* report);

// Counters of the plugin that say how much there is (window_cells) rather than how often something happened: they are not added up.
bool IsState(const std::string& counter);

// Names in a store.
inline constexpr const char* kBaseName = "base";
inline constexpr const char* kFloorName = "floor";
std::string StoreName(const CacheChoice& cache);  // one for all spellings of a cache
std::string ChunkUnit(int chunk);
std::string DecodeUnit(int chunk, int decode_tokens, int step);
std::string TrajectoryUnit(int index, const QualityOptions& options);

}  // namespace swivel

#endif  // SWIVEL_EVAL_QUALITY_H_
