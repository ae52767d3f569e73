#include "plugin/kv_tensor.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/half.h"
#include "plugin/log.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

// Equal as numbers: a row that was never written decodes to zeros of either sign, and storing it would commit memory.
bool SameRow(const std::vector<uint16_t>& a, const std::vector<uint16_t>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), [](uint16_t x, uint16_t y) { return x == y || ((x | y) & 0x7fff) == 0; });
}

}  // namespace

KvTensor::KvTensor(KvBuffer* buffer, const ggml_tensor& root, bool nominal_room)
    : buffer_(buffer),
      name_(root.name),
      kv_(*ParseKvRoot(&root)),
      row_values_(root.ne[0]),
      num_cells_(root.ne[1]),
      num_streams_(static_cast<int>(root.ne[2])),
      address_(static_cast<uint8_t*>(root.data)),
      nominal_room_(nominal_room),
      floats_(static_cast<size_t>(root.ne[0])) {}

Status KvTensor::Learn(int width, int num_heads) {
  if (width_ == width && num_heads_ == num_heads) return {};
  const std::string seen = std::to_string(num_heads) + " heads of " + std::to_string(width);
  if (static_cast<int64_t>(width) * num_heads != row_values_) {
    return Status::Invalid("attention reads " + name_ + " as " + seen + ", but its rows hold " + std::to_string(row_values_) + " values");
  }
  if (width_ != 0) {
    return Status::Invalid("attention reads " + name_ + " as " + seen + " and as " + std::to_string(num_heads_) + " heads of " +
                           std::to_string(width_));
  }
  width_ = width;
  num_heads_ = num_heads;
  return {};
}

Status KvTensor::Hold(size_t bytes) {
  auto memory = LazyMemory::Reserve(bytes);
  if (!memory.ok()) return Status::OutOfMemory(name_ + ": " + memory.status().message());
  held_ = std::move(*memory);
  return {};
}

Status KvTensor::Pack(const Codec& codec, ScaleMode mode) {
  auto store = GroupStore::Create(codec, kv_.side, mode, shape());
  if (!store.ok()) return store.status();
  row_store_ = std::move(store.value());
  ImportImage();
  return {};
}

void KvTensor::Stage(std::shared_ptr<LayerCache> layer) {
  layer_cache_ = std::move(layer);
  ImportImage();
}

void KvTensor::ImportImage() {
  if (written_) {
    const uint8_t* image = nominal_room_ ? address_ : image_.data();
    std::vector<uint16_t> row(static_cast<size_t>(row_values_));
    for (int64_t cell = 0; image != nullptr && cell < total_cells(); ++cell) {
      std::memcpy(row.data(), image + static_cast<size_t>(cell) * row_bytes(), row_bytes());
      // An empty store reads as zeros; writing them would only commit memory.
      if (std::any_of(row.begin(), row.end(), [](uint16_t value) { return value != 0; })) WriteRow(cell, row.data(), cell, total_cells());
    }
  }
  image_ = LazyMemory();
  written_ = false;
}

uint8_t* KvTensor::Image() {
  if (nominal_room_) return address_;
  if (image_.data() == nullptr) {
    auto memory = LazyMemory::Reserve(nominal_bytes());
    // Address space is the one thing that cannot run short here on a 64-bit machine unless a limit was set for the process.
    if (!memory.ok()) {
      SayOnce(memory.status().message());
      return nullptr;
    }
    image_ = std::move(memory.value());
  }
  return image_.data();
}

void KvTensor::ReadRow(int64_t cell, uint16_t* row) const {
  if (layer_cache_ != nullptr) {
    layer_cache_->ReadRow(kv_.side, cell, row);
  } else {
    row_store_->DecodeCell(cell, floats_.data());
    for (int64_t i = 0; i < row_values_; ++i) row[i] = F16FromF32(floats_[static_cast<size_t>(i)]);
  }
  std::replace(row, row + row_values_, uint16_t{0x8000}, uint16_t{0});  // an empty row shows plain zeros
}

void KvTensor::WriteRow(int64_t cell, const uint16_t* row, int64_t place, int64_t count) {
  if (layer_cache_ == nullptr) {
    for (int64_t i = 0; i < row_values_; ++i) floats_[static_cast<size_t>(i)] = F32FromF16(row[i]);
    return row_store_->EncodeCell(kernels(), cell, floats_.data());
  }
  std::memcpy(layer_cache_->Row(kv_.side, cell), row, row_bytes());
  // A restored state brings no positions, but its first rows are a sequence's first tokens; a row that is changed in place stays what it
  // is.
  const bool known = layer_cache_->IsWritten(kv_.side, cell);
  if (known && basis_ != nullptr) basis_->ForgetRow(cell);
  const int64_t position = known ? LayerCache::kKeepPin : count > kGroupTokens ? place : LayerCache::kNoPosition;
  layer_cache_->MarkWritten(kv_.side, cell, position);
}

void KvTensor::Read(size_t offset, void* out, size_t size) const {
  auto* to = static_cast<uint8_t*>(out);
  if (plain()) {
    const uint8_t* image = nominal_room_ ? address_ : image_.data();
    if (image != nullptr) {
      std::memcpy(to, image + offset, size);
    } else {
      std::memset(to, 0, size);
    }
    return;
  }
  std::vector<uint16_t> row(static_cast<size_t>(row_values_));
  while (size > 0) {
    const size_t start = offset % row_bytes();
    const size_t part = std::min(size, row_bytes() - start);
    ReadRow(static_cast<int64_t>(offset / row_bytes()), row.data());
    std::memcpy(to, reinterpret_cast<const uint8_t*>(row.data()) + start, part);
    to += part;
    offset += part;
    size -= part;
  }
}

void KvTensor::Write(size_t offset, const void* data, size_t size) {
  const auto* from = static_cast<const uint8_t*>(data);
  if (plain()) {
    if (uint8_t* image = Image(); image != nullptr) std::memcpy(image + offset, from, size);
    written_ = true;
    return;
  }
  std::vector<uint16_t> stored(static_cast<size_t>(row_values_)), row(stored);
  const auto first = static_cast<int64_t>(offset / row_bytes());
  const auto count = static_cast<int64_t>((offset + size - 1) / row_bytes()) - first + 1;
  while (size > 0) {
    const int64_t cell = static_cast<int64_t>(offset / row_bytes());
    const size_t start = offset % row_bytes();
    const size_t part = std::min(size, row_bytes() - start);
    ReadRow(cell, stored.data());
    row = stored;
    std::memcpy(reinterpret_cast<uint8_t*>(row.data()) + start, from, part);
    if (!SameRow(row, stored)) WriteRow(cell, row.data(), cell - first, count);
    from += part;
    offset += part;
    size -= part;
  }
}

void KvTensor::Fill(uint8_t byte) {
  if (row_store_ != nullptr) row_store_->Clear();
  if (layer_cache_ != nullptr) layer_cache_->Clear(kv_.side);
  if (basis_ != nullptr) basis_->Clear();
  if (byte == 0) {
    // The image in place belongs to the buffer, which clears it.
    image_.Discard();
    written_ = false;
    return;
  }
  const std::vector<uint8_t> row(row_bytes(), byte);
  for (int64_t cell = 0; cell < total_cells(); ++cell) Write(static_cast<size_t>(cell) * row_bytes(), row.data(), row.size());
}

}  // namespace swivel::plugin
