#include "cli/doctor_process.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace swivel::cli {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void BecomeChild(const std::function<int()>& body, const int out[2], const int err[2]) {
  setpgid(0, 0);  // so that what it starts can be ended with it
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  const rlimit none{0, 0};
  setrlimit(RLIMIT_CORE, &none);
  const int nothing = open("/dev/null", O_RDONLY);
  dup2(nothing, 0);
  dup2(out[1], 1);
  dup2(err[1], 2);
  for (int fd : {nothing, out[0], out[1], err[0], err[1]}) close(fd);
  const int status = body();
  std::fflush(nullptr);
  _exit(status);
}

// Reads what there is; false at the end of the stream.
bool Drain(int fd, std::string* text) {
  char buffer[4096];
  const ssize_t got = read(fd, buffer, sizeof(buffer));
  if (got < 0) return errno == EINTR || errno == EAGAIN;
  if (got == 0) return false;
  // Beyond the limit it is read and dropped: a child that blocks on a full pipe would look like one that hangs.
  if (text->size() < kMaxChildOutput) text->append(buffer, static_cast<size_t>(got));
  return true;
}

}  // namespace

std::string ChildResult::HowItEnded() const {
  if (timed_out) return "did not end in time and was stopped";
  if (signal != 0) return "crashed (signal " + std::to_string(signal) + ", " + strsignal(signal) + ")";
  return "exit status " + std::to_string(exit_status);
}

ChildResult RunInChild(const std::function<int()>& body, int seconds) {
  ChildResult result;
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return result;
  if (pipe2(err, O_CLOEXEC) != 0) {
    close(out[0]);
    close(out[1]);
    return result;
  }
  std::fflush(nullptr);
  const pid_t child = fork();
  if (child == 0) BecomeChild(body, out, err);
  close(out[1]);
  close(err[1]);
  const Clock::time_point deadline = Clock::now() + std::chrono::seconds(seconds);
  pollfd streams[2] = {{out[0], POLLIN, 0}, {err[0], POLLIN, 0}};
  int status = 0;
  bool running = child > 0;
  while (running) {
    const int ready = poll(streams, 2, 50);
    for (int i = 0; i < 2; ++i) {
      const bool open = streams[i].fd >= 0 && streams[i].revents != 0;
      if (open && !Drain(streams[i].fd, i == 0 ? &result.out : &result.err)) streams[i].fd = -1;
    }
    // A grandchild may hold the pipes open for ever, so the end of the child is what counts, once nothing is left to read.
    if (ready <= 0 || (streams[0].fd < 0 && streams[1].fd < 0)) {
      running = waitpid(child, &status, WNOHANG) == 0;
      if (running && ready > 0) usleep(10000);
    }
    if (running && Clock::now() > deadline) {
      result.timed_out = true;
      kill(-child, SIGKILL);
      kill(child, SIGKILL);  // in case it had not made its group yet
      while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
      }
      running = false;
    }
  }
  if (child > 0) kill(-child, SIGKILL);  // whatever it left behind
  close(out[0]);
  close(err[0]);
  if (child > 0 && WIFEXITED(status)) result.exit_status = WEXITSTATUS(status);
  if (child > 0 && WIFSIGNALED(status)) result.signal = WTERMSIG(status);
  return result;
}

ChildResult RunProgram(const std::vector<std::string>& argv, const Environment& environment, int seconds) {
  return RunInChild(
      [&] {
        for (const std::string& name : environment.unset) unsetenv(name.c_str());
        for (const auto& [name, value] : environment.set) setenv(name.c_str(), value.c_str(), 1);
        std::vector<char*> words;
        for (const std::string& word : argv) words.push_back(const_cast<char*>(word.c_str()));
        words.push_back(nullptr);
        execv(words[0], words.data());
        std::fprintf(stderr, "%s: %s\n", words[0], std::strerror(errno));
        return 127;
      },
      seconds);
}

}  // namespace swivel::cli
