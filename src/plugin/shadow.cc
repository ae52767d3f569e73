#include "plugin/shadow.h"

#include <cstdint>

#include "plugin/kv_caches.h"

namespace swivel::plugin {

Status Shadow::Point(ggml_tensor* tensor) {
  size_t offset = 0;
  KvTensor* kv = caches().Find(tensor, &offset);
  if (kv == nullptr) return {};
  uint8_t* image = nullptr;
  if (kv->plain()) {
    image = kv->Image();
    if (image == nullptr) return Status::OutOfMemory("no address space for " + kv->name());
  } else if (const auto known = images_.find(kv); known != images_.end()) {
    image = known->second.data();
  } else {
    auto memory = LazyMemory::Reserve(kv->nominal_bytes());
    if (!memory.ok()) return memory.status();
    image = memory->data();
    kv->Read(0, image, kv->nominal_bytes());
    images_.emplace(kv, std::move(*memory));
  }
  saved_.emplace_back(tensor, tensor->data);
  tensor->data = image + offset;
  return {};
}

Status Shadow::Attach(ggml_tensor* node) {
  written_ = caches().Find(node);
  Status status = Point(node);
  for (int i = 0; i < GGML_MAX_SRC && status.ok(); ++i) {
    if (node->src[i] != nullptr) status = Point(node->src[i]);
  }
  if (!status.ok()) {
    written_ = nullptr;
    Detach();
  }
  return status;
}

void Shadow::Detach() {
  // Last in, first out: the same tensor may be both the node's source and its destination's view.
  for (auto entry = saved_.rbegin(); entry != saved_.rend(); ++entry) entry->first->data = entry->second;
  saved_.clear();
  if (written_ != nullptr) {
    if (written_->plain()) {
      written_->MarkWritten();
    } else {
      written_->Write(0, images_.at(written_).data(), written_->nominal_bytes());
    }
  }
  images_.clear();
  written_ = nullptr;
}

}  // namespace swivel::plugin
