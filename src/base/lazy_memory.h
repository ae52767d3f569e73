// Address space that costs memory only where it has been written.
#ifndef SWIVEL_BASE_LAZY_MEMORY_H_
#define SWIVEL_BASE_LAZY_MEMORY_H_

#include <cstddef>
#include <cstdint>

#include "base/status.h"

namespace swivel {

// Owns a page-aligned, zero-filled range. Reserving is free; pages are committed by the first write (reads see zeros).
// Not thread safe for Reserve, Reset and moves; the bytes themselves are plain memory.
class LazyMemory {
 public:
  LazyMemory() = default;
  ~LazyMemory();
  LazyMemory(LazyMemory&& other) noexcept;
  LazyMemory& operator=(LazyMemory&& other) noexcept;
  LazyMemory(const LazyMemory&) = delete;
  LazyMemory& operator=(const LazyMemory&) = delete;

  // Errors: kOutOfMemory when the address space cannot be had. `bytes` may be 0.
  static StatusOr<LazyMemory> Reserve(size_t bytes);

  uint8_t* data() const { return data_; }
  size_t size() const { return size_; }

  // Gives every page back; the range reads as zeros again.
  void Discard();

  // Gives back the pages that lie within [offset, offset + size) as a whole, none beyond the end.
  void DiscardRange(size_t offset, size_t size);

  // Bytes that occupy physical memory now (whole pages). Cost: one system call and a byte a page.
  size_t ResidentBytes() const;

 private:
  uint8_t* data_ = nullptr;
  size_t size_ = 0;
};

}  // namespace swivel

#endif  // SWIVEL_BASE_LAZY_MEMORY_H_
