// Two saved evaluations (`swivel eval --json`) beside each other: what changed, is it more than this text can tell, is it too much.
#ifndef SWIVEL_EVAL_COMPARE_H_
#define SWIVEL_EVAL_COMPARE_H_

#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "eval/paired.h"

namespace swivel {

struct SavedCache {
  std::string kv;
  std::optional<double> bits, kld, kld_p99, kld_max, decode_kld, top1, log_ppl_ratio;
  std::vector<float> kld_of_positions, decode_kld_of_positions;
};

struct SavedEvaluation {
  std::string path, model, text, weights, version, token_hash;
  int context_tokens = 0, decode_tokens = 0;
  std::vector<size_t> runs;
  std::vector<SavedCache> caches;

  const SavedCache* Find(const std::string& kv) const;
};
// kNotFound, kIo; kInvalidArgument when the text is not what `swivel eval --json` writes.
StatusOr<SavedEvaluation> ReadEvaluation(const std::string& path);
StatusOr<SavedEvaluation> ParseEvaluation(const std::string& json, const std::string& path);

// Why positions of the two cannot be paired; empty when they can.
std::string WhyNotPaired(const SavedEvaluation& a, const SavedEvaluation& b);

struct ComparedCache {
  const SavedCache* a = nullptr;
  const SavedCache* b = nullptr;
  PairedDifference kld, decode_kld;  // of b against a: "worse" says that b is
};
// Caches that both have, in the order of `a`; or the one named `kv` in `a` and `with` in `b`. kNotFound names a missing one.
StatusOr<std::vector<ComparedCache>> Compare(const SavedEvaluation& a, const SavedEvaluation& b, const std::string& kv,
                                             const std::string& with);

// "kld=0.01": b may exceed a by so much. Figures: kld, kld_p99, kld_max, decode_kld, ppl (of ln PPL), top1 (a share that may be lost).
struct Limit {
  std::string figure;
  double most = 0;
};
StatusOr<Limit> ParseLimit(const std::string& text);
// How much worse b is; absent when either was not measured.
std::optional<double> Excess(const ComparedCache& cache, const std::string& figure);

}  // namespace swivel

#endif  // SWIVEL_EVAL_COMPARE_H_
