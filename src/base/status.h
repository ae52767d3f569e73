// Errors as values: the library returns a Status and never prints, exits or throws.
//
// Goals: one small type that carries a code for programs and one sentence for people. Non-goals: stack traces, nesting.
#ifndef SWIVEL_BASE_STATUS_H_
#define SWIVEL_BASE_STATUS_H_

#include <optional>
#include <string>
#include <utility>

namespace swivel {

enum class StatusCode {
  kOk = 0,
  kInvalidArgument,  // the caller's value is wrong; the message names it and what is accepted
  kUnsupported,      // well formed, but this build, codec or host cannot serve it
  kOutOfMemory,
  kNotFound,  // a file or a name that does not exist
  kIo,        // reading or writing failed
  kInternal,  // a fault of ours
};

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(StatusCode code, std::string message) : code_(code), message_(std::move(message)) {}

  static Status Invalid(std::string message) { return {StatusCode::kInvalidArgument, std::move(message)}; }
  static Status Unsupported(std::string message) { return {StatusCode::kUnsupported, std::move(message)}; }
  static Status OutOfMemory(std::string message) { return {StatusCode::kOutOfMemory, std::move(message)}; }
  static Status NotFound(std::string message) { return {StatusCode::kNotFound, std::move(message)}; }
  static Status Io(std::string message) { return {StatusCode::kIo, std::move(message)}; }
  static Status Internal(std::string message) { return {StatusCode::kInternal, std::move(message)}; }

  bool ok() const { return code_ == StatusCode::kOk; }
  StatusCode code() const { return code_; }
  const std::string& message() const { return message_; }

 private:
  StatusCode code_ = StatusCode::kOk;
  std::string message_;
};

// A value or the reason there is none. `value()` may only be called when `ok()`.
template <class T>
class [[nodiscard]] StatusOr {
 public:
  StatusOr(T value) : value_(std::move(value)) {}          // NOLINT: implicit, so that `return value;` reads well
  StatusOr(Status status) : status_(std::move(status)) {}  // NOLINT: implicit, so that `return Status::…` reads well

  bool ok() const { return value_.has_value(); }
  const Status& status() const { return status_; }
  T& value() { return *value_; }
  const T& value() const { return *value_; }
  T& operator*() { return *value_; }
  T* operator->() { return &*value_; }

 private:
  std::optional<T> value_;
  Status status_;
};

}  // namespace swivel

#endif  // SWIVEL_BASE_STATUS_H_
