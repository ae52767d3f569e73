// Reads little-endian values from a file or from memory, never past the end. Private to src/gguf.
#ifndef SWIVEL_GGUF_READER_H_
#define SWIVEL_GGUF_READER_H_

#include <cstdint>
#include <cstdio>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace swivel::gguf {

// Every read returns false when fewer bytes are left than asked for; the position is then unspecified and `ok()` stays false.
class Reader {
 public:
  explicit Reader(std::span<const uint8_t> bytes) : window_(bytes), size_(bytes.size()) {}
  // Takes over `file`, which is `size` bytes long.
  Reader(std::FILE* file, uint64_t size) : file_(file, &std::fclose), buffer_(kBufferBytes), size_(size) {}

  uint64_t size() const { return size_; }
  uint64_t position() const { return window_start_ + cursor_; }
  uint64_t left() const { return size_ - position(); }

  bool Read(void* destination, uint64_t bytes);
  bool Skip(uint64_t bytes);

  // An unsigned little-endian integer of `bytes` (1, 2, 4 or 8) bytes.
  bool Unsigned(int bytes, uint64_t* value);

 private:
  static constexpr size_t kBufferBytes = 1 << 18;
  bool Refill();

  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{nullptr, &std::fclose};
  std::vector<uint8_t> buffer_;
  std::span<const uint8_t> window_;  // the bytes at hand; begins at window_start_
  uint64_t window_start_ = 0;
  uint64_t cursor_ = 0;  // within the window
  uint64_t size_ = 0;
};

}  // namespace swivel::gguf

#endif  // SWIVEL_GGUF_READER_H_
