#include "eval/thread_team.h"

namespace swivel {
namespace {

// About a tenth of a millisecond: more than lies between two calls that are measured one after the other, less than anybody notices.
constexpr int kSpins = 2000;

inline void Relax() {
#if defined(__x86_64__) || defined(__i386__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("isb");
#endif
}

// Returns when `value` is no longer `old`.
template <class T>
void WaitForChange(const std::atomic<T>& value, T old) {
  for (int i = 0; i < kSpins; ++i) {
    if (value.load(std::memory_order_acquire) != old) return;
    Relax();
  }
  value.wait(old, std::memory_order_acquire);
}

}  // namespace

ThreadTeam::ThreadTeam(int size) {
  for (int thread = 1; thread < size; ++thread) threads_.emplace_back([this, thread] { Loop(thread); });
}

ThreadTeam::~ThreadTeam() {
  work_ = nullptr;
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Run(const std::function<void(int)>& work) {
  work_ = &work;
  busy_.store(static_cast<int>(threads_.size()), std::memory_order_relaxed);
  run_.fetch_add(1, std::memory_order_release);
  run_.notify_all();
  work(0);
  for (int busy = busy_.load(std::memory_order_acquire); busy != 0; busy = busy_.load(std::memory_order_acquire)) {
    WaitForChange(busy_, busy);
  }
}

void ThreadTeam::Loop(int thread) {
  for (unsigned seen = 0;; ++seen) {
    WaitForChange(run_, seen);
    if (work_ == nullptr) return;
    (*work_)(thread);
    if (busy_.fetch_sub(1, std::memory_order_acq_rel) == 1) busy_.notify_one();
  }
}

}  // namespace swivel
