#include "base/lazy_memory.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace swivel {
namespace {

size_t PageSize() { return static_cast<size_t>(sysconf(_SC_PAGESIZE)); }
size_t RoundToPage(size_t bytes) { return (bytes + PageSize() - 1) / PageSize() * PageSize(); }

// What may be in the way: pages are committed only when used, so it is a limit and not the machine's memory.
std::string LimitText() {
  rlimit limit;
  if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY) {
    return " (the process is limited to " + std::to_string(limit.rlim_cur) + ": ulimit -v)";
  }
  return "";
}

}  // namespace

LazyMemory::~LazyMemory() {
  if (data_ != nullptr) munmap(data_, RoundToPage(size_));
}

LazyMemory::LazyMemory(LazyMemory&& other) noexcept : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

LazyMemory& LazyMemory::operator=(LazyMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

StatusOr<LazyMemory> LazyMemory::Reserve(size_t bytes) {
  LazyMemory memory;
  if (bytes == 0) return memory;
  void* data = mmap(nullptr, RoundToPage(bytes), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (data == MAP_FAILED) return Status::OutOfMemory("cannot reserve " + std::to_string(bytes) + " bytes of address space" + LimitText());
  // A huge page would commit 2 MiB for the first token of every layer and head; small pages let memory follow use.
  madvise(data, RoundToPage(bytes), MADV_NOHUGEPAGE);
  memory.data_ = static_cast<uint8_t*>(data);
  memory.size_ = bytes;
  return memory;
}

void LazyMemory::Discard() {
  if (data_ != nullptr) madvise(data_, RoundToPage(size_), MADV_DONTNEED);
}

void LazyMemory::DiscardRange(size_t offset, size_t size) {
  // Never beyond the range: its neighbours are other people's memory.
  const size_t limit = std::min(offset + size, RoundToPage(size_));
  const size_t begin = RoundToPage(offset);
  const size_t end = limit / PageSize() * PageSize();
  if (data_ != nullptr && begin < end) madvise(data_ + begin, end - begin, MADV_DONTNEED);
}

size_t LazyMemory::ResidentBytes() const {
  if (data_ == nullptr) return 0;
  const size_t pages = RoundToPage(size_) / PageSize();
  std::vector<unsigned char> state(pages);
  if (mincore(data_, size_, state.data()) != 0) return 0;
  size_t resident = 0;
  for (unsigned char page : state) resident += page & 1;
  return resident * PageSize();
}

}  // namespace swivel
