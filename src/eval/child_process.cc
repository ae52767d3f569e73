#include "eval/child_process.h"

#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <system_error>

#include <fmt/format.h>

extern char** environ;

namespace swivel {
namespace {

// Both pipes at once: a child that fills the one nobody reads would never end.
void Drain(int out, int err, ChildResult* result) {
  pollfd pipes[2] = {{out, POLLIN, 0}, {err, POLLIN, 0}};
  std::string* texts[2] = {&result->out, &result->err};
  while (pipes[0].fd >= 0 || pipes[1].fd >= 0) {
    if (poll(pipes, 2, -1) < 0 && errno != EINTR) return;
    for (int i = 0; i < 2; ++i) {
      if (pipes[i].fd < 0 || pipes[i].revents == 0) continue;
      char buffer[4096];
      const ssize_t count = read(pipes[i].fd, buffer, sizeof buffer);
      if (count > 0) {
        texts[i]->append(buffer, static_cast<size_t>(count));
      } else if (count == 0 || errno != EINTR) {
        pipes[i].fd = -1;
      }
    }
  }
}

}  // namespace

StatusOr<ChildResult> RunChild(const std::vector<std::string>& arguments) {
  int out[2], err[2];
  if (pipe2(out, O_CLOEXEC) != 0) return Status::Internal(fmt::format("pipe: {}", std::strerror(errno)));
  if (pipe2(err, O_CLOEXEC) != 0) {
    const int reason = errno;
    close(out[0]);
    close(out[1]);
    return Status::Internal(fmt::format("pipe: {}", std::strerror(reason)));
  }
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&actions, out[1], STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, err[1], STDERR_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  pid_t pid = 0;
  const int failure = posix_spawn(&pid, argv[0], &actions, nullptr, argv.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  close(out[1]);
  close(err[1]);
  ChildResult result;
  if (failure == 0) Drain(out[0], err[0], &result);
  close(out[0]);
  close(err[0]);
  if (failure != 0) return Status::Internal(fmt::format("cannot start {}: {}", arguments[0], std::strerror(failure)));
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) {
    if (errno != EINTR) return Status::Internal(fmt::format("waitpid: {}", std::strerror(errno)));
  }
  result.exit_code = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  return result;
}

StatusOr<std::string> OwnExecutable() {
  std::error_code error;
  const std::filesystem::path path = std::filesystem::read_symlink("/proc/self/exe", error);
  if (error) return Status::Internal(fmt::format("/proc/self/exe: {}", error.message()));
  return path.string();
}

}  // namespace swivel
