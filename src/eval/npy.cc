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
// numpy itself refuses longer ones by default: a header is a short dictionary.
constexpr size_t kMostHeaderBytes = 10000;

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

StatusOr<NpyMatrix> ReadNpy(const std::string& path, size_t most_rows) {
  struct stat info = {};
  if (stat(path.c_str(), &info) != 0) {
    const std::string message = fmt::format("'{}' cannot be read: {}", path, std::strerror(errno));
    return errno == ENOENT ? Status::NotFound(message) : Status::Io(message);
  }
  if (!S_ISREG(info.st_mode)) return Status::Invalid(fmt::format("'{}' is not a regular file", path));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), std::fclose);
  if (file == nullptr) return Status::Io(fmt::format("'{}' cannot be read: {}", path, std::strerror(errno)));
  const auto file_bytes = static_cast<uint64_t>(info.st_size);

  // Magic, version, length of the header (two bytes in version 1, four in 2 and 3), header, values.
  unsigned char start[12] = {};
  if (std::fread(start, 1, 10, file.get()) != 10 || std::memcmp(start, kMagic, kMagicBytes) != 0) {
    return Status::Invalid(fmt::format("'{}' is not a .npy file", path));
  }
  if (start[6] < 1 || start[6] > 3) {
    return Status::Unsupported(fmt::format("'{}' has version {} of the .npy format; 1 to 3 are read", path, start[6]));
  }
  size_t header_bytes = static_cast<size_t>(start[8] | start[9] << 8), begin = 10;
  if (start[6] > 1) {
    if (std::fread(start + 10, 1, 2, file.get()) != 2) return Status::Invalid(fmt::format("'{}' ends in its header", path));
    header_bytes |= static_cast<size_t>(start[10]) << 16 | static_cast<size_t>(start[11]) << 24;
    begin = 12;
  }
  if (header_bytes > kMostHeaderBytes) {
    return Status::Invalid(fmt::format("'{}' has a header of {} bytes; at most {} are read", path, header_bytes, kMostHeaderBytes));
  }
  std::string text(header_bytes, '\0');
  if (std::fread(text.data(), 1, header_bytes, file.get()) != header_bytes) {
    return Status::Invalid(fmt::format("'{}' ends in its header", path));
  }
  const std::optional<Header> header = HeaderReader(text).Read();
  if (!header) return Status::Invalid(fmt::format("'{}' has a damaged header", path));

  const size_t value_bytes = header->type == "<f2" ? 2 : header->type == "<f4" ? 4 : header->type == "<f8" ? 8 : 0;
  if (value_bytes == 0) {
    return Status::Unsupported(
        fmt::format("'{}' holds values of type '{}'; '<f2', '<f4' and '<f8' (float16, float32, float64) are read", path, header->type));
  }
  if (header->fortran_order) {
    return Status::Unsupported(fmt::format("'{}' is in Fortran order; save numpy.ascontiguousarray(x)", path));
  }
  if (header->shape.size() != 2) {
    return Status::Unsupported(fmt::format("'{}' has shape {}; two dimensions are read: vectors, values", path, ShapeText(header->shape)));
  }
  const uint64_t rows = header->shape[0], columns = header->shape[1];
  uint64_t bytes = 0;
  if (__builtin_mul_overflow(rows, columns, &bytes) || __builtin_mul_overflow(bytes, value_bytes, &bytes) ||
      bytes != file_bytes - std::min<uint64_t>(file_bytes, begin + header_bytes)) {
    return Status::Invalid(fmt::format("'{}' says shape {} of '{}', but {} bytes follow its header", path, ShapeText(header->shape),
                                       header->type, file_bytes - std::min<uint64_t>(file_bytes, begin + header_bytes)));
  }
  if (bytes == 0) return Status::Invalid(fmt::format("'{}' has shape {}: no values", path, ShapeText(header->shape)));

  NpyMatrix matrix;
  matrix.file_rows = rows;
  matrix.rows = std::min<size_t>(rows, most_rows);
  matrix.columns = columns;
  // The file has as many values as it says, so what is reserved is bounded by its size.
  matrix.values.reserve(matrix.rows * matrix.columns);
  std::string row(columns * value_bytes, '\0');
  for (size_t i = 0; i < matrix.rows; ++i) {
    if (std::fread(row.data(), 1, row.size(), file.get()) != row.size()) {
      return Status::Io(fmt::format("'{}' could not be read to its end", path));
    }
    Convert(row, value_bytes, &matrix.values);
  }
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
