// The header of a GGUF file: key-value pairs and the list of tensors, without the tensors themselves.
//
// Goals: answers about a model from its first megabytes; safe on hostile and half-downloaded files (every length is checked against
// the bytes that exist, memory is bounded by the bytes that were read). Non-goals: tensor data, writing, GGUF version 1.
//
// Why not ggml's own gguf reader: it refuses a file that ends inside the header and tensor types newer than the linked ggml, both of
// which say nothing about the cache; its getters abort the process when a key has another type than expected; and it would tie these
// answers to builds that have a llama.cpp.
#ifndef SWIVEL_GGUF_HEADER_H_
#define SWIVEL_GGUF_HEADER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/status.h"

namespace swivel::gguf {

enum class ValueType : uint32_t { kU8, kI8, kU16, kI16, kU32, kI32, kF32, kBool, kString, kArray, kU64, kI64, kF64 };

// Arrays longer than this (vocabularies, merges) are skipped: only their length is known. llama.cpp's limit on layers is 512.
inline constexpr uint64_t kMaxKeptElements = 4096;

struct Value {
  ValueType type = ValueType::kU32;  // of an element, for arrays
  bool is_array = false;
  uint64_t count = 1;                // elements
  std::vector<int64_t> integers;     // of integer and bool types; a u64 above the range of i64 is kept as its largest value
  std::vector<double> reals;         // of float types
  std::vector<std::string> strings;  // of strings
};

struct Tensor {
  std::string name;
  std::vector<uint64_t> shape;
  uint32_t type = 0;  // ggml_type; may be one that this build does not know
  uint64_t offset = 0;
  int part = 0;  // of a model in several files, from 0
};

struct Header {
  uint32_t version = 0;
  uint64_t file_bytes = 0;
  std::map<std::string, Value> values;
  std::vector<Tensor> tensors;
  uint64_t declared_tensors = 0;
  // Where the data of the tensors begin, in each of the files of a model that ReadModelHeader read; known when `complete`.
  std::vector<uint64_t> data_offsets;
  // False when the file ends inside the header; what was read before that point is there. `end_note` says where it ended.
  bool complete = false;
  std::string end_note;

  // The value of a key when it exists and has the kind asked for; nothing otherwise.
  std::optional<int64_t> Integer(const std::string& key) const;  // scalars only
  std::optional<std::string> String(const std::string& key) const;
  // A scalar integer or an array of integers (or bools) as a vector; empty when absent, of another kind or too long to be kept.
  std::vector<int64_t> Integers(const std::string& key) const;

  // Bytes of all tensors (padding not counted); nothing when the list is not complete or holds a type of unknown size.
  std::optional<uint64_t> TensorBytes() const;
};

// Errors: kNotFound (no such file), kIo, kInvalidArgument (not a GGUF file, a damaged one, an old version; the message says which).
StatusOr<Header> ReadHeader(const std::string& path);
// The same for bytes in memory; `file_bytes` is their number.
StatusOr<Header> ParseHeader(std::span<const uint8_t> bytes);

// ReadHeader, and for a model in several files (`…-00001-of-00003.gguf`) the tensor lists of the other parts, found by name beside
// the first. A missing part leaves `complete` false. Naming another part than the first is kInvalidArgument.
StatusOr<Header> ReadModelHeader(const std::string& path);

// The name of another file of a model in several, from 0: part 2 of …-00001-of-00003.gguf is …-00003-of-00003.gguf. Part 0 is `path`
// itself.
std::string PartPath(const std::string& path, int part, int64_t parts);

// "F16", "Q4_K", …: the ggml tensor types known here; "type <n>" for others.
std::string TensorTypeName(uint32_t type);
// What general.file_type stands for, as llama.cpp names it: "Q4_K - Medium", …; "type <n>" for others.
std::string FileTypeName(int64_t file_type);

}  // namespace swivel::gguf

#endif  // SWIVEL_GGUF_HEADER_H_
