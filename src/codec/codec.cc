#include "codec/codec.h"

namespace swivel {

#define SWIVEL_CODEC(id, name, object) extern const Codec object;
#include "codec/codecs.inc"
#undef SWIVEL_CODEC

namespace {

constexpr const Codec* kAllCodecs[] = {
#define SWIVEL_CODEC(id, name, object) &object,
#include "codec/codecs.inc"
#undef SWIVEL_CODEC
};

}  // namespace

const char* ScaleModeName(ScaleMode mode) {
  switch (mode) {
    case ScaleMode::kMatched:
      return "matched";
    case ScaleMode::kUnbiased:
      return "unbiased";
    case ScaleMode::kLeastSquares:
      return "ls";
  }
  return "unknown";
}

std::span<const Codec* const> AllCodecs() { return kAllCodecs; }

const Codec& GetCodec(CodecId id) { return *kAllCodecs[static_cast<int>(id)]; }

StatusOr<const Codec*> FindCodec(std::string_view name) {
  for (const Codec* codec : AllCodecs()) {
    if (name == codec->name) return codec;
  }
  return Status::Invalid("unknown codec '" + std::string(name) + "'; accepted: " + CodecNames());
}

std::string CodecNames() {
  std::string names;
  for (const Codec* codec : AllCodecs()) names += std::string(names.empty() ? "" : ", ") + codec->name;
  return names;
}

Status CheckWidth(const Codec& codec, int width) {
  if (width >= kMinHeadWidth && width <= kMaxHeadWidth && width % codec.width_multiple == 0) return Status();
  return Status::Unsupported("codec " + std::string(codec.name) + " cannot serve head width " + std::to_string(width) +
                             "; it serves multiples of " + std::to_string(codec.width_multiple) + " from " +
                             std::to_string(kMinHeadWidth) + " to " + std::to_string(kMaxHeadWidth));
}

double BitsPerValue(const Codec& codec, int width) {
  return 8.0 * static_cast<double>(codec.group_bytes(width)) / (static_cast<double>(kGroupTokens) * width);
}

void DecodeRow(const Codec& codec, const uint8_t* group, int width, Side side, int token, float* row) {
  codec.decode_in_frame(group, width, side, token, row);
  InverseRotate(codec.frame(side), row, width);
}

}  // namespace swivel
