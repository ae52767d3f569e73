// Threads that stay: starting one takes longer than attention over a short context, and would be measured with it.
#ifndef SWIVEL_EVAL_THREAD_TEAM_H_
#define SWIVEL_EVAL_THREAD_TEAM_H_

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

namespace swivel {

class ThreadTeam {
 public:
  // `size` threads, the caller of Run among them; at least 1.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return static_cast<int>(threads_.size()) + 1; }
  // Calls work(thread) on every thread, 0 on the caller's, and waits for all. No allocation. One Run at a time.
  void Run(const std::function<void(int)>& work);

 private:
  void Loop(int thread);

  std::vector<std::thread> threads_;
  const std::function<void(int)>* work_ = nullptr;  // null ends the threads
  std::atomic<unsigned> run_{0};
  std::atomic<int> busy_{0};
};

}  // namespace swivel

#endif  // SWIVEL_EVAL_THREAD_TEAM_H_
