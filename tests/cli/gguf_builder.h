// Writes GGUF headers for tests, right ones and wrong ones.
#ifndef SWIVEL_TESTS_CLI_GGUF_BUILDER_H_
#define SWIVEL_TESTS_CLI_GGUF_BUILDER_H_

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "gguf/header.h"

namespace swivel::gguf {

class Builder {
 public:
  template <class T>
  Builder& Raw(T value) {
    static_assert(std::is_trivially_copyable_v<T>);
    const size_t at = body_.size();
    body_.resize(at + sizeof(T));
    std::memcpy(body_.data() + at, &value, sizeof(T));
    return *this;
  }
  Builder& Text(std::string_view text) {
    Raw<uint64_t>(text.size());
    body_.insert(body_.end(), text.begin(), text.end());
    return *this;
  }
  // The beginning of a key-value pair; its value follows.
  Builder& Key(std::string_view name, ValueType type) {
    ++keys_;
    return Text(name).Raw<uint32_t>(static_cast<uint32_t>(type));
  }
  Builder& U32(std::string_view name, uint32_t value) { return Key(name, ValueType::kU32).Raw(value); }
  Builder& String(std::string_view name, std::string_view value) { return Key(name, ValueType::kString).Text(value); }
  template <class T>
  Builder& Array(std::string_view name, ValueType type, const std::vector<T>& values) {
    Key(name, ValueType::kArray).Raw<uint32_t>(static_cast<uint32_t>(type)).Raw<uint64_t>(values.size());
    for (const T& value : values) Raw(value);
    return *this;
  }
  Builder& Tensor(std::string_view name, const std::vector<uint64_t>& shape, uint32_t type, uint64_t offset = 0) {
    ++tensors_;
    Text(name).Raw<uint32_t>(static_cast<uint32_t>(shape.size()));
    for (uint64_t extent : shape) Raw(extent);
    return Raw(type).Raw<uint64_t>(offset);
  }

  // The file; counts that differ from what was added may be forced.
  std::vector<uint8_t> Bytes(uint32_t version = 3, int64_t keys = -1, int64_t tensors = -1) const {
    Builder head;
    for (char c : {'G', 'G', 'U', 'F'}) head.Raw(c);
    head.Raw(version).Raw<uint64_t>(tensors < 0 ? tensors_ : static_cast<uint64_t>(tensors));
    head.Raw<uint64_t>(keys < 0 ? keys_ : static_cast<uint64_t>(keys));
    std::vector<uint8_t> bytes(head.body_.size() + body_.size());
    std::copy(body_.begin(), body_.end(), std::copy(head.body_.begin(), head.body_.end(), bytes.begin()));
    return bytes;
  }

 private:
  std::vector<uint8_t> body_;
  uint64_t keys_ = 0, tensors_ = 0;
};

// The keys that every decoder has. Widths are embedding / heads unless more keys say otherwise.
inline Builder Decoder(const std::string& architecture, uint32_t layers, uint32_t embedding, uint32_t heads, uint32_t heads_kv) {
  Builder builder;
  builder.String("general.architecture", architecture)
      .U32(architecture + ".block_count", layers)
      .U32(architecture + ".context_length", 8192)
      .U32(architecture + ".embedding_length", embedding)
      .U32(architecture + ".attention.head_count", heads)
      .U32(architecture + ".attention.head_count_kv", heads_kv);
  return builder;
}

}  // namespace swivel::gguf

#endif  // SWIVEL_TESTS_CLI_GGUF_BUILDER_H_
