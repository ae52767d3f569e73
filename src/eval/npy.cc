#include "eval/npy.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <optional>

#include "base/half.h"

namespace swivel {
namespace {

static_assert(std::endian::native == std::endian::little, "values are copied as they lie in the file");

constexpr char kMagic[] = "\x93NUMPY";
constexpr size_t kMagicBytes = 6;

struct Header {
  std::string type;
  bool fortran_order = false;
  std::vector<uint64_t> shape;
};

// Reads "{'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }": a Python dictionary of these three keys in any order.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view text) : text_(text) {}

  std::optional<Header> Read() {
    Header header;
    int seen = 0;  // a bit for each key
    if (!Take('{')) return {};
    while (!Take('}')) {
      const std::optional<std::string> key = String();
      if (!key || !Take(':')) return {};
      int bit = 0;
      if (*key == "descr") {
        bit = 1;
        if (!Type(&header.type)) return {};
      } else if (*key == "fortran_order") {
        bit = 2;
        if (!Boolean(&header.fortran_order)) return {};
      } else if (*key == "shape") {
        bit = 4;
        if (!Shape(&header.shape)) return {};
      }
      if (bit == 0 || (seen & bit) != 0) return {};
      seen |= bit;
      if (!Take(',') && !Ahead('}')) return {};
    }
    return seen == 7 ? std::optional<Header>(header) : std::nullopt;
  }

 private:
  bool Ahead(char c) {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
    return at_ < text_.size() && text_[at_] == c;
  }
  bool Take(char c) {
    const bool ahead = Ahead(c);
    at_ += ahead;
    return ahead;
  }
  std::optional<std::string> String() {
    const char quote = Ahead('"') ? '"' : '\'';
    if (!Take(quote)) return {};
    const size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) return {};
    std::string value(text_.substr(at_, end - at_));
    at_ = end + 1;
    return value;
  }
  // A record type is a list, which is fine Python and no type of ours.
  bool Type(std::string* type) {
    if (Ahead('[')) {
      *type = "a record";
      at_ = std::min(text_.find(']', at_), text_.size() - 1) + 1;
      return true;
    }
    const std::optional<std::string> name = String();
    if (name) *type = *name;
    return name.has_value();
  }
  bool Boolean(bool* value) {
    for (const bool candidate : {false, true}) {
      const std::string_view word = candidate ? "True" : "False";
      if (Ahead(word[0]) && text_.substr(at_, word.size()) == word) {
        at_ += word.size();
        *value = candidate;
        return true;
      }
    }
    return false;
  }
  bool Shape(std::vector<uint64_t>* shape) {
    if (!Take('(')) return false;
    while (!Take(')')) {
      uint64_t value = 0;
      size_t digits = 0;
      Ahead('0');  // skips blanks
      for (; at_ < text_.size() && text_[at_] >= '0' && text_[at_] <= '9'; ++at_, ++digits) {
        value = 10 * value + static_cast<uint64_t>(text_[at_] - '0');
      }
      if (digits == 0 || digits > 18 || shape->size() == 32) return false;
      shape->push_back(value);
      if (!Take(',') && !Ahead(')')) return false;
    }
    return true;
  }

  std::string_view text_;
  size_t at_ = 0;
};

std::string ShapeText(const std::vector<uint64_t>& shape) {
  return fmt::format("({}{})", fmt::join(shape, ", "), shape.size() == 1 ? "," : "");
}

void Convert(const std::string& bytes, size_t value_bytes, std::vector<float>* values) {
  const size_t count = bytes.size() / value_bytes;
  for (size_t i = 0; i < count; ++i) {
    const char* at = bytes.data() + i * value_bytes;
    if (value_bytes == 2) {
      uint16_t half;
      std::memcpy(&half, at, sizeof half);
      values->push_back(F32FromF16(half));
    } else if (value_bytes == 4) {
      float value;
      std::memcpy(&value, at, sizeof value);
      values->push_back(value);
    } else {
      double value;
      std::memcpy(&value, at, sizeof value);
      values->push_back(static_cast<float>(value));
    }
  }
}

}  // namespace

// Magic, version, length of the header (two bytes in version 1, four in 2 and 3), header, values.
StatusOr<NpyLayout> ParseNpyHeader(std::string_view start, uint64_t file_bytes) {
  if (start.size() < 10 || start.substr(0, kMagicBytes) != std::string_view(kMagic, kMagicBytes)) {
    return Status::Invalid("is not a .npy file");
  }
  const auto byte = [&](size_t at) { return static_cast<size_t>(static_cast<unsigned char>(start[at])); };
  const size_t version = byte(6);
  if (version < 1 || version > 3) return Status::Unsupported(fmt::format("has version {} of the .npy format; 1 to 3 are read", version));
  size_t header_bytes = byte(8) | byte(9) << 8, header_begin = 10;
  if (version > 1) {
    if (start.size() < 12) return Status::Invalid("ends in its header");
    header_bytes |= byte(10) << 16 | byte(11) << 24;
    header_begin = 12;
  }
  if (header_bytes > kMostNpyHeaderBytes) {
    return Status::Invalid(fmt::format("has a header of {} bytes; at most {} are read", header_bytes, kMostNpyHeaderBytes));
  }
  if (start.size() - header_begin < header_bytes) return Status::Invalid("ends in its header");
  const std::optional<Header> header = HeaderReader(start.substr(header_begin, header_bytes)).Read();
  if (!header) return Status::Invalid("has a damaged header");

  NpyLayout layout;
  layout.begin = header_begin + header_bytes;
  layout.value_bytes = header->type == "<f2" ? 2 : header->type == "<f4" ? 4 : header->type == "<f8" ? 8 : 0;
  if (layout.value_bytes == 0) {
    return Status::Unsupported(
        fmt::format("holds values of type '{}'; '<f2', '<f4' and '<f8' (float16, float32, float64) are read", header->type));
  }
  if (header->fortran_order) return Status::Unsupported("is in Fortran order; save numpy.ascontiguousarray(x)");
  const std::string shape = ShapeText(header->shape);
  if (header->shape.size() != 2) {
    return Status::Unsupported(fmt::format("has shape {}; two dimensions are read: vectors, values", shape));
  }
  layout.rows = header->shape[0];
  layout.columns = header->shape[1];
  const uint64_t follow = file_bytes - std::min<uint64_t>(file_bytes, layout.begin);
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(layout.rows, layout.columns, &bytes) || __builtin_mul_overflow(bytes, layout.value_bytes, &bytes) ||
      bytes != follow) {
    return Status::Invalid(fmt::format("says shape {} of '{}', but {} bytes follow its header", shape, header->type, follow));
  }
  if (bytes == 0) return Status::Invalid(fmt::format("has shape {}: no values", shape));
  return layout;
}

StatusOr<NpyMatrix> ReadNpy(const std::string& path, size_t most_rows) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string message = fmt::format("'{}' cannot be read: {}", path, std::strerror(errno));
    return errno == ENOENT ? Status::NotFound(message) : Status::Io(message);
  }
  if (!S_ISREG(info.st_mode)) return Status::Invalid(fmt::format("'{}' is not a regular file", path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return Status::Io(fmt::format("'{}' cannot be read: {}", path, std::strerror(errno)));
  std::string start(12 + kMostNpyHeaderBytes, '\0');
  start.resize(std::fread(start.data(), 1, start.size(), file.get()));
  StatusOr<NpyLayout> layout = ParseNpyHeader(start, static_cast<uint64_t>(info.st_size));
  if (!layout.ok()) return Status(layout.status().code(), fmt::format("'{}' {}", path, layout.status().message()));

  NpyMatrix matrix;
  matrix.file_rows = layout->rows;
  matrix.rows = std::min(layout->rows, most_rows);
  matrix.columns = layout->columns;
  // The file has as many values as it says, so what is reserved is bounded by its size.
  matrix.values.reserve(matrix.rows * matrix.columns);
  std::string row(matrix.columns * layout->value_bytes, '\0');
  bool good = std::fseek(file.get(), static_cast<long>(layout->begin), SEEK_SET) == 0;
  for (size_t i = 0; i < matrix.rows && good; ++i) {
    good = std::fread(row.data(), 1, row.size(), file.get()) == row.size();
    Convert(row, layout->value_bytes, &matrix.values);
  }
  if (!good) return Status::Io(fmt::format("'{}' could not be read to its end", path));
  return matrix;
}

std::string NpyBytes(std::span<const float> values, size_t rows, size_t columns) {
  std::string dictionary = fmt::format("{{'descr': '<f4', 'fortran_order': False, 'shape': ({}, {}), }}", rows, columns);
  // numpy pads with blanks and a newline so that the values begin at a multiple of 64.
  const size_t padding = 63 - (10 + dictionary.size()) % 64;
  dictionary += std::string(padding, ' ') + "\n";
  std::string bytes(kMagic, kMagicBytes);
  bytes += {'\x01', '\x00', static_cast<char>(dictionary.size() & 0xff), static_cast<char>(dictionary.size() >> 8)};
  bytes += dictionary;
  const size_t begin = bytes.size();
  bytes.resize(begin + values.size_bytes());
  if (!values.empty()) std::memcpy(bytes.data() + begin, values.data(), values.size_bytes());
  return bytes;
}

}  // namespace swivel
