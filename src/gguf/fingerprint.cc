#include "gguf/fingerprint.h"

#include <algorithm>
#include <bit>
#include <cstdio>
#include <memory>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "gguf/header.h"
#include "gguf/types.h"

namespace swivel {
namespace {

// The widest models have 20 thousand channels; a norm of more than this is damage.
constexpr uint64_t kMostNormBytes = 1u << 22;

constexpr double kDefaultRopeBase = 10000;

class Text {
 public:
  void Number(uint64_t value) {
    for (int shift = 0; shift < 64; shift += 8) bytes_ += static_cast<char>(value >> shift & 0xff);
  }
  // Its length first, so that neighbours cannot be divided in two ways.
  void String(std::string_view text) {
    Number(text.size());
    bytes_ += text;
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

Status AddTensor(const std::string& path, const gguf::Header& header, const gguf::Tensor& tensor, Text* text) {
  const uint64_t bytes = gguf::BytesOf(tensor).value_or(0);
  const auto part = static_cast<size_t>(tensor.part);
  uint64_t begin = 0;
  if (bytes == 0 || bytes > kMostNormBytes || part >= header.data_offsets.size() ||
      __builtin_add_overflow(header.data_offsets[part], tensor.offset, &begin) || begin > INT64_MAX) {
    return Status::Invalid(path + ": damaged GGUF header: " + tensor.name + " has no sensible size or place");
  }
  const std::string name = gguf::PartPath(path, tensor.part, static_cast<int64_t>(header.data_offsets.size()));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(name.c_str(), "rb"), &std::fclose);
  std::string data(bytes, '\0');
  if (file == nullptr || fseeko(file.get(), static_cast<off_t>(begin), SEEK_SET) != 0 ||
      std::fread(data.data(), 1, data.size(), file.get()) != data.size()) {
    return Status::Invalid(name + ": ends before its tensor " + tensor.name);
  }
  text->String(tensor.name);
  text->String(data);
  return {};
}

}  // namespace

StatusOr<uint64_t> ModelFingerprint(const std::string& gguf_path) {
  const StatusOr<gguf::Header> read = gguf::ReadModelHeader(gguf_path);
  if (!read.ok()) return read.status();
  const gguf::Header& header = read.value();
  if (!header.complete) return Status::Invalid(gguf_path + ": " + header.end_note);

  const std::string architecture = header.String("general.architecture").value_or("");
  Text text;
  text.String(architecture);
  // Lists have a number for each layer. Converters of different age write or leave out what llama.cpp has a default for.
  const auto integers = [&](const char* key) { return header.Integers(architecture + "." + key); };
  const std::vector<int64_t> blocks = integers("block_count"), heads = integers("attention.head_count");
  std::vector<int64_t> heads_kv = integers("attention.head_count_kv"), widths = integers("attention.key_length");
  if (heads_kv.empty()) heads_kv = heads;
  const int64_t first_heads = heads.empty() ? 0 : heads[0];
  if (widths.empty() && first_heads > 0) widths = {header.Integer(architecture + ".embedding_length").value_or(0) / first_heads};
  for (const auto& numbers : {blocks, heads, heads_kv, widths}) {
    text.Number(numbers.size());
    for (const int64_t number : numbers) text.Number(static_cast<uint64_t>(number));
  }
  const auto rope = header.values.find(architecture + ".rope.freq_base");
  const bool has_base = rope != header.values.end() && rope->second.reals.size() == 1;
  text.Number(std::bit_cast<uint64_t>(has_base ? rope->second.reals[0] : kDefaultRopeBase));
  const auto tokens = header.values.find("tokenizer.ggml.tokens");
  text.Number(tokens == header.values.end() ? 0 : tokens->second.count);

  bool found = false;
  for (const char* name : {"output_norm.weight", "blk.0.attn_norm.weight"}) {
    const auto tensor =
        std::find_if(header.tensors.begin(), header.tensors.end(), [&](const gguf::Tensor& candidate) { return candidate.name == name; });
    if (tensor == header.tensors.end()) continue;
    if (Status status = AddTensor(gguf_path, header, *tensor, &text); !status.ok()) return status;
    found = true;
  }
  if (!found) {
    return Status::Unsupported(gguf_path + ": has neither output_norm.weight nor blk.0.attn_norm.weight, which tell models apart");
  }
  return Hash64(text.bytes());
}

}  // namespace swivel
