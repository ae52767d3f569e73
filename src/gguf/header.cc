#include "gguf/header.h"

#include <sys/stat.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <limits>

#include "gguf/reader.h"
#include "gguf/types.h"

namespace swivel::gguf {
namespace {

// Bounds that no real model comes near (the largest have about 1500 keys-and-tensors per thousand layers); a number above one of them
// is damage. Below them nothing is trusted either: all loops end where the file ends.
constexpr uint64_t kMaxKeys = 1u << 20;
constexpr uint64_t kMaxTensors = 1u << 22;
constexpr uint64_t kMaxNameBytes = 1u << 16;
constexpr uint64_t kMaxStringBytes = 1u << 28;
constexpr uint64_t kMaxDimensions = 8;
// Of the data behind the header, where general.alignment does not say otherwise.
constexpr uint64_t kAlignment = 32, kMostAlignment = 1u << 20;

// Bytes of one element; 0 for strings, arrays and unknown types.
int ElementBytes(ValueType type) {
  switch (type) {
    case ValueType::kU8:
    case ValueType::kI8:
    case ValueType::kBool:
      return 1;
    case ValueType::kU16:
    case ValueType::kI16:
      return 2;
    case ValueType::kU32:
    case ValueType::kI32:
    case ValueType::kF32:
      return 4;
    case ValueType::kU64:
    case ValueType::kI64:
    case ValueType::kF64:
      return 8;
    default:
      return 0;
  }
}

int64_t AsInteger(ValueType type, uint64_t raw) {
  switch (type) {
    case ValueType::kI8:
      return static_cast<int8_t>(raw);
    case ValueType::kI16:
      return static_cast<int16_t>(raw);
    case ValueType::kI32:
      return static_cast<int32_t>(raw);
    case ValueType::kI64:
      return static_cast<int64_t>(raw);
    default:
      return raw > INT64_MAX ? INT64_MAX : static_cast<int64_t>(raw);
  }
}

enum class Step { kDone, kEnd, kDamaged };  // kEnd: the file ended; kDamaged: `error_` says what is wrong

class Parser {
 public:
  explicit Parser(Reader reader) : reader_(std::move(reader)) { header_.file_bytes = reader_.size(); }

  StatusOr<Header> Run() {
    Step step = Preamble();
    if (step == Step::kEnd) return Status::Invalid("not a GGUF file: it is only " + std::to_string(reader_.size()) + " bytes long");
    for (uint64_t i = 0; step == Step::kDone && i < num_keys_; ++i) step = KeyValue(i);
    for (uint64_t i = 0; step == Step::kDone && i < header_.declared_tensors; ++i) step = TensorInfo(i);
    if (step == Step::kDamaged) return Status::Invalid(error_);
    header_.complete = step == Step::kDone;
    if (header_.complete) {
      const int64_t stated = header_.Integer("general.alignment").value_or(static_cast<int64_t>(kAlignment));
      const uint64_t alignment = stated > 0 && stated <= static_cast<int64_t>(kMostAlignment) ? static_cast<uint64_t>(stated) : kAlignment;
      header_.data_offsets = {(reader_.position() + alignment - 1) / alignment * alignment};
    }
    if (step == Step::kEnd) {
      header_.end_note = "the file ends after " + std::to_string(reader_.size()) + " bytes, inside its header (" + place_ + ")";
    }
    return std::move(header_);
  }

 private:
  Step Damaged(const std::string& what) {
    error_ = "damaged GGUF header: " + what;
    return Step::kDamaged;
  }

  Step Preamble() {
    char magic[4];
    uint64_t version, tensors;
    if (!reader_.Read(magic, 4)) return Step::kEnd;
    if (std::memcmp(magic, "GGUF", 4) != 0) {
      error_ = "not a GGUF file: it does not begin with the letters GGUF";
      return Step::kDamaged;
    }
    if (!reader_.Unsigned(4, &version)) return Step::kEnd;
    if (version != 2 && version != 3) {
      const bool swapped = version != 0 && (version & 0xffff) == 0;
      error_ = swapped ? "this GGUF file was written for a big-endian machine; only little-endian files are read"
                       : "GGUF version " + std::to_string(version) + " is not supported; versions 2 and 3 are";
      return Step::kDamaged;
    }
    header_.version = static_cast<uint32_t>(version);
    if (!reader_.Unsigned(8, &tensors) || !reader_.Unsigned(8, &num_keys_)) return Step::kEnd;
    if (tensors > kMaxTensors) return Damaged("it claims " + std::to_string(tensors) + " tensors");
    if (num_keys_ > kMaxKeys) return Damaged("it claims " + std::to_string(num_keys_) + " keys");
    header_.declared_tensors = tensors;
    return Step::kDone;
  }

  Step String(uint64_t limit, const char* what, std::string* text) {
    uint64_t length;
    if (!reader_.Unsigned(8, &length)) return Step::kEnd;
    if (length > limit) return Damaged(place_ + ": " + what + " of " + std::to_string(length) + " bytes");
    if (length > reader_.left()) return Step::kEnd;  // before the allocation: a length alone must not cost memory
    text->resize(length);
    return reader_.Read(text->data(), length) ? Step::kDone : Step::kEnd;
  }

  Step SkipStrings(uint64_t count) {
    for (uint64_t i = 0; i < count; ++i) {
      uint64_t length;
      if (!reader_.Unsigned(8, &length)) return Step::kEnd;
      if (length > kMaxStringBytes) return Damaged(place_ + ": a string of " + std::to_string(length) + " bytes");
      if (!reader_.Skip(length)) return Step::kEnd;
    }
    return Step::kDone;
  }

  Step Elements(Value* value) {
    if (value->type == ValueType::kString) {
      if (value->count > kMaxKeptElements) return SkipStrings(value->count);
      for (uint64_t i = 0; i < value->count; ++i) {
        std::string text;
        const Step step = String(kMaxStringBytes, "a string", &text);
        if (step != Step::kDone) return step;
        value->strings.push_back(std::move(text));
      }
      return Step::kDone;
    }
    const int bytes = ElementBytes(value->type);
    if (bytes == 0) return Damaged(place_ + ": value type " + std::to_string(static_cast<uint32_t>(value->type)));
    if (value->count > kMaxKeptElements) {
      if (value->count > reader_.left() / static_cast<uint64_t>(bytes)) return Step::kEnd;
      return reader_.Skip(value->count * static_cast<uint64_t>(bytes)) ? Step::kDone : Step::kEnd;
    }
    for (uint64_t i = 0; i < value->count; ++i) {
      uint64_t raw;
      if (!reader_.Unsigned(bytes, &raw)) return Step::kEnd;
      if (value->type == ValueType::kF32) {
        value->reals.push_back(std::bit_cast<float>(static_cast<uint32_t>(raw)));
      } else if (value->type == ValueType::kF64) {
        value->reals.push_back(std::bit_cast<double>(raw));
      } else {
        value->integers.push_back(AsInteger(value->type, raw));
      }
    }
    return Step::kDone;
  }

  Step KeyValue(uint64_t index) {
    place_ = "key " + std::to_string(index + 1) + " of " + std::to_string(num_keys_);
    std::string key;
    Step step = String(kMaxNameBytes, "a name", &key);
    if (step != Step::kDone) return step;
    if (key.empty()) return Damaged(place_ + " has no name");
    place_ += ", " + key;
    uint64_t type;
    Value value;
    if (!reader_.Unsigned(4, &type)) return Step::kEnd;
    if (type == static_cast<uint64_t>(ValueType::kArray)) {
      value.is_array = true;
      if (!reader_.Unsigned(4, &type) || !reader_.Unsigned(8, &value.count)) return Step::kEnd;
    }
    value.type = static_cast<ValueType>(type);
    step = Elements(&value);
    if (step != Step::kDone) return step;
    if (!header_.values.emplace(key, std::move(value)).second) return Damaged("the key " + key + " appears twice");
    return Step::kDone;
  }

  Step TensorInfo(uint64_t index) {
    place_ = "tensor " + std::to_string(index + 1) + " of " + std::to_string(header_.declared_tensors);
    Tensor tensor;
    const Step step = String(kMaxNameBytes, "a name", &tensor.name);
    if (step != Step::kDone) return step;
    uint64_t dimensions, type;
    if (!reader_.Unsigned(4, &dimensions)) return Step::kEnd;
    if (dimensions > kMaxDimensions) return Damaged(place_ + " has " + std::to_string(dimensions) + " dimensions");
    for (uint64_t i = 0; i < dimensions; ++i) {
      uint64_t extent;
      if (!reader_.Unsigned(8, &extent)) return Step::kEnd;
      tensor.shape.push_back(extent);
    }
    if (!reader_.Unsigned(4, &type) || !reader_.Unsigned(8, &tensor.offset)) return Step::kEnd;
    tensor.type = static_cast<uint32_t>(type);
    header_.tensors.push_back(std::move(tensor));
    return Step::kDone;
  }

  Reader reader_;
  Header header_;
  uint64_t num_keys_ = 0;
  std::string place_ = "its first bytes";
  std::string error_;
};

}  // namespace

std::optional<int64_t> Header::Integer(const std::string& key) const {
  const auto found = values.find(key);
  if (found == values.end() || found->second.is_array || found->second.integers.size() != 1) return std::nullopt;
  return found->second.integers[0];
}

std::optional<std::string> Header::String(const std::string& key) const {
  const auto found = values.find(key);
  if (found == values.end() || found->second.is_array || found->second.strings.size() != 1) return std::nullopt;
  return found->second.strings[0];
}

std::vector<int64_t> Header::Integers(const std::string& key) const {
  const auto found = values.find(key);
  return found == values.end() ? std::vector<int64_t>() : found->second.integers;
}

std::optional<uint64_t> Header::TensorBytes() const {
  if (!complete) return std::nullopt;
  uint64_t total = 0;
  for (const Tensor& tensor : tensors) {
    const std::optional<uint64_t> bytes = BytesOf(tensor);
    if (!bytes || total > std::numeric_limits<uint64_t>::max() - *bytes) return std::nullopt;
    total += *bytes;
  }
  return total;
}

StatusOr<Header> ParseHeader(std::span<const uint8_t> bytes) { return Parser(Reader(bytes)).Run(); }

StatusOr<Header> ReadHeader(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string reason = std::strerror(errno);
    return Status(errno == ENOENT ? StatusCode::kNotFound : StatusCode::kIo, path + ": " + reason);
  }
  if (!S_ISREG(info.st_mode)) return Status::Invalid(path + ": not a regular file");
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (file == nullptr) return Status::Io(path + ": " + std::strerror(errno));
  StatusOr<Header> header = Parser(Reader(file, static_cast<uint64_t>(info.st_size))).Run();
  if (!header.ok()) return Status(header.status().code(), path + ": " + header.status().message());
  return header;
}

}  // namespace swivel::gguf
