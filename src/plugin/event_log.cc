#include "plugin/event_log.h"

#include <fcntl.h>
#include <sys/time.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>

namespace swivel::plugin {
namespace {

// Never closed but by a failed write: a host may free its caches while the process exits.
std::atomic<int> log_file{-1};

std::string Now() {
  timeval now;
  gettimeofday(&now, nullptr);
  tm utc;
  gmtime_r(&now.tv_sec, &utc);
  char date[32], text[48];
  std::strftime(date, sizeof(date), "%Y-%m-%dT%H:%M:%S", &utc);
  std::snprintf(text, sizeof(text), "%s.%03dZ", date, static_cast<int>(now.tv_usec / 1000));
  return text;
}

}  // namespace

std::string JsonText(std::string_view text) {
  std::string quoted = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      quoted += '\\';
      quoted += c;
    } else if (static_cast<unsigned char>(c) < 0x20) {
      char escape[8];
      std::snprintf(escape, sizeof(escape), "\\u%04x", c);
      quoted += escape;
    } else {
      quoted += c;
    }
  }
  return quoted + "\"";
}

Event& Event::Text(const char* key, std::string_view value) {
  members_ += std::string(",\"") + key + "\":" + JsonText(value);
  return *this;
}

Event& Event::Number(const char* key, int64_t value) {
  members_ += std::string(",\"") + key + "\":" + std::to_string(value);
  return *this;
}

Event& Event::Number(const char* key, double value) {
  // Hosts may have set a locale with a decimal comma; thousandths are what is wanted here.
  const auto thousandths = static_cast<int64_t>(value * 1000 + (value < 0 ? -0.5 : 0.5));
  char text[32];
  std::snprintf(text, sizeof(text), "%s%lld.%03lld", thousandths < 0 ? "-" : "", std::abs(static_cast<long long>(thousandths / 1000)),
                std::abs(static_cast<long long>(thousandths % 1000)));
  members_ += std::string(",\"") + key + "\":" + text;
  return *this;
}

Status OpenEventLog(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
  if (file < 0) {
    return Status::Io("SWIVEL_LOG=" + path + " cannot be opened for appending: " + std::strerror(errno) +
                      "; it names a file, or is 1 or stderr for a list of operations on stderr, or 0");
  }
  log_file = file;
  return {};
}

void Record(const Event& event) {
  const int file = log_file;
  if (file < 0) return;
  const std::string line =
      "{\"time\":\"" + Now() + "\",\"pid\":" + std::to_string(getpid()) + ",\"event\":\"" + event.name_ + "\"" + event.members_ + "}\n";
  ssize_t written;
  do {
    written = write(file, line.data(), line.size());
  } while (written < 0 && errno == EINTR);
  if (written == static_cast<ssize_t>(line.size())) return;
  const std::string reason = written < 0 ? std::strerror(errno) : "only a part was written";
  int open_file = file;
  // One thread closes it and says so.
  if (!log_file.compare_exchange_strong(open_file, -1)) return;
  std::fputs(("swivel: SWIVEL_LOG cannot be written (" + reason + "): events are not recorded from now on\n").c_str(), stderr);
}

}  // namespace swivel::plugin
