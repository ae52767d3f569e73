// What both searches keep and ask: results so far, the rows of the table, the step that is due.
#ifndef SWIVEL_TUNE_SEARCH_STATE_H_
#define SWIVEL_TUNE_SEARCH_STATE_H_

#include <optional>
#include <set>
#include <string>
#include <vector>

#include "tune/candidates.h"
#include "tune/search.h"

namespace swivel {

// Finalists beside the preset, of search and of confirmation.
inline constexpr size_t kFinalists = 4, kConfirmed = 2;

class SearchState {
 public:
  SearchState(const TuneProblem& problem, const TuneResults& results) : candidates_(problem), problem_(problem), results_(results) {}

  const TuneProblem& problem() const { return problem_; }
  const TuneResults& results() const { return results_; }
  const Candidates& candidates() const { return candidates_; }
  int num_layers() const { return static_cast<int>(problem_.layers.size()); }
  int last_search() const { return problem_.search_chunks - 1; }
  TuneStep& step() { return step_; }

  // What early stages may still spend without taking the last two stages' share.
  int Spare() const;
  // Lists the specs as rows; false when some must be measured first: then the step asks for that.
  bool Measured(const std::string& stage, const std::vector<NamedSpec>& specs, int first, int last);
  double MeanOf(const CacheSpec& spec, int first, int last) const;
  Verdict Compare(const CacheSpec& a, const CacheSpec& b, int first, int last, PairedDifference* difference = nullptr) const;
  static void SortByMean(const std::vector<double>& means, std::vector<NamedSpec>* specs);
  void SortByMean(int first, int last, std::vector<NamedSpec>* specs) const;
  void SortByCost(std::vector<NamedSpec>* specs) const;
  // Drops the last ones where runs are short.
  void Trim(std::vector<NamedSpec>* specs) const;
  // What improved on `base` on chunk 0 beyond noise, all of it together.
  std::optional<NamedSpec> Together(const CacheSpec& base, const std::vector<NamedSpec>& changes) const;
  std::vector<NamedSpec> AllRows() const;
  // The choice and the preset it is compared with, with their figures on chunks first … last; `outcome` has the reason.
  void Settle(const NamedSpec& chosen, const std::optional<NamedSpec>& preset, int first, int last, TuneOutcome* outcome);

 private:
  const Candidates candidates_;
  const TuneProblem& problem_;
  const TuneResults& results_;
  TuneStep step_;
  std::set<std::string> listed_;
  int planned_ = 0;  // runs of the first three stages
};

// Under a limit on bits or bytes: the least KLD. kInvalidArgument where nothing that is tried is within it.
Status SearchSize(SearchState& search);
// Under a limit on KLD: the fewest bytes.
void SearchKld(SearchState& search);

}  // namespace swivel

#endif  // SWIVEL_TUNE_SEARCH_STATE_H_
