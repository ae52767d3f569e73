#include "gguf/reader.h"

#include <algorithm>
#include <cstring>

namespace swivel::gguf {

bool Reader::Refill() {
  if (file_ == nullptr) return false;
  window_start_ += cursor_;
  cursor_ = 0;
  const size_t got = std::fread(buffer_.data(), 1, buffer_.size(), file_.get());
  window_ = std::span<const uint8_t>(buffer_.data(), got);
  return got > 0;
}

bool Reader::Read(void* destination, uint64_t bytes) {
  if (bytes > left()) return false;
  auto* out = static_cast<uint8_t*>(destination);
  while (bytes > 0) {
    // A file can shrink while it is read: then a refill brings nothing although the size promised more.
    if (cursor_ == window_.size() && !Refill()) return false;
    const uint64_t part = std::min<uint64_t>(bytes, window_.size() - cursor_);
    std::memcpy(out, window_.data() + cursor_, part);
    cursor_ += part;
    out += part;
    bytes -= part;
  }
  return true;
}

bool Reader::Skip(uint64_t bytes) {
  if (bytes > left()) return false;
  const uint64_t at_hand = window_.size() - cursor_;
  if (bytes <= at_hand) {
    cursor_ += bytes;
    return true;
  }
  if (file_ == nullptr) return false;
  // The stream stands at the end of the window.
  if (fseeko(file_.get(), static_cast<off_t>(bytes - at_hand), SEEK_CUR) != 0) return false;
  window_start_ += cursor_ + bytes;
  cursor_ = 0;
  window_ = {};
  return true;
}

bool Reader::Unsigned(int bytes, uint64_t* value) {
  uint8_t raw[8];
  if (!Read(raw, static_cast<uint64_t>(bytes))) return false;
  *value = 0;
  for (int i = bytes - 1; i >= 0; --i) *value = *value << 8 | raw[i];
  return true;
}

}  // namespace swivel::gguf
