// One line on stderr that says how far a long piece of work is and how long it will still take. Silent unless stderr is a terminal.
#ifndef SWIVEL_EVAL_PROGRESS_H_
#define SWIVEL_EVAL_PROGRESS_H_

#include <chrono>
#include <string>

namespace swivel {

class Progress {
 public:
  Progress();  // enabled when stderr is a terminal
  ~Progress() { Clear(); }

  // Starts a piece of `total` units of roughly equal cost.
  void Begin(double total);
  // `label` says what is running now; an empty one only counts.
  void Advance(double units, const std::string& label);
  // Removes the line, so that other output starts in column one.
  void Clear();

 private:
  using Clock = std::chrono::steady_clock;

  bool enabled_;
  bool shown_ = false;
  double total_ = 1;
  double done_ = 0;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point last_shown_;
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_PROGRESS_H_
