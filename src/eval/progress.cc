#include "eval/progress.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <string>

#include <fmt/format.h>

namespace swivel {
namespace {

std::string Duration(double seconds) {
  const int rounded = static_cast<int>(seconds + 0.5);
  if (rounded >= 3600) return fmt::format("{}h{:02}m", rounded / 3600, rounded / 60 % 60);
  if (rounded >= 60) return fmt::format("{}m{:02}s", rounded / 60, rounded % 60);
  return fmt::format("{}s", rounded);
}

}  // namespace

Progress::Progress() : enabled_(isatty(STDERR_FILENO) != 0) {}

void Progress::Begin(double total) {
  total_ = std::max(total, 1e-9);
  done_ = 0;
  begin_ = Clock::now();
}

void Progress::Advance(double units, const std::string& label) {
  done_ += units;
  if (!enabled_ || label.empty()) return;
  const Clock::time_point now = Clock::now();
  if (shown_ && now - last_shown_ < std::chrono::milliseconds(200)) return;
  const double elapsed = std::chrono::duration<double>(now - begin_).count();
  const double share = std::clamp(done_ / total_, 0.0, 1.0);
  const std::string left = share > 0.005 ? Duration(elapsed / share * (1 - share)) + " left" : "";
  fmt::print(stderr, "\r\033[K{:3.0f} %  {}  {}", 100 * share, left, label);
  std::fflush(stderr);
  shown_ = true;
  last_shown_ = now;
}

void Progress::Clear() {
  if (!shown_) return;
  std::fputs("\r\033[K", stderr);
  std::fflush(stderr);
  shown_ = false;
}

}  // namespace swivel
