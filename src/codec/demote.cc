#include "codec/demote.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "base/half.h"
#include "codec/plane_rows.h"
#include "codec/turbo.h"
#include "math/codebook.h"

namespace swivel {
namespace {

// The planes of a part of 32 tokens in units that keys and values share: unit j is 16 coordinates, half h is a tile of 16 tokens (keys)
// or the tokens 16 h … 16 h + 15 (values). All blocks have 64 bytes. Offsets follow codec/planes.h.
size_t LowBlock(int bits, Side side, int width, int j, int h) {  // 4 bits: the first of two neighbouring blocks
  const size_t size = bits == 4 ? 128 : 64;
  if (side == Side::kKey) return h * (width / 16 * size) + j * size;
  return j * (static_cast<size_t>(64) * bits) + h * size;
}
size_t HighBlock(Side side, int width, int j) {
  return side == Side::kKey ? static_cast<size_t>(width) * 8 + static_cast<size_t>(j) * 64 : static_cast<size_t>(j) * 192 + 128;
}

uint32_t GetWord(const uint8_t* at) {
  uint32_t word;
  std::memcpy(&word, at, 4);
  return word;
}
void PutWord(uint8_t* at, uint32_t word) { std::memcpy(at, &word, 4); }

// Masks cut every shift back to its byte, so the order of bytes in a word does not matter.
constexpr uint32_t kOne = 0x01010101u, kTwo = 0x03030303u;

// Four fields of two bits, `shift` bits up in the nibbles of two blocks of 4-bit codes.
uint32_t TwoBits(uint32_t a, uint32_t b, int shift) {
  return (a >> shift & kTwo) | (a >> (shift + 4) & kTwo) << 2 | (b >> shift & kTwo) << 4 | (b >> (shift + 4) & kTwo) << 6;
}
// Their top bits as a nibble.
uint32_t TopBits(uint32_t a, uint32_t b) { return (a >> 3 & kOne) | (a >> 7 & kOne) << 1 | (b >> 3 & kOne) << 2 | (b >> 7 & kOne) << 3; }
// The upper bits of four fields of a low plane of 3-bit codes, joined with their bits of the high plane.
uint32_t TopTwoOfThree(uint32_t low, uint32_t nibble) {
  return (low >> 1 & 0x55555555u) | (nibble & kOne) << 1 | (nibble >> 1 & kOne) << 3 | (nibble >> 2 & kOne) << 5 |
         (nibble >> 3 & kOne) << 7;
}

void DemotePart(int from_bits, int to_bits, int width, Side side, const uint8_t* part, uint8_t* out) {
  for (int j = 0; j < width / 16; ++j) {
    for (int lane = 0; lane < 64; lane += 4) {
      uint32_t high = 0;
      for (int h : {0, 1}) {
        const uint8_t* low = part + LowBlock(from_bits, side, width, j, h) + lane;
        uint8_t* low_out = out + LowBlock(to_bits, side, width, j, h) + lane;
        if (from_bits == 4) {
          const uint32_t a = GetWord(low), b = GetWord(low + 64);
          PutWord(low_out, TwoBits(a, b, 4 - to_bits));
          high |= TopBits(a, b) << (4 * h);
        } else {
          PutWord(low_out, TopTwoOfThree(GetWord(low), GetWord(part + HighBlock(side, width, j) + lane) >> (4 * h)));
        }
      }
      if (to_bits == 3) PutWord(out + HighBlock(side, width, j) + lane, high);
      // 4 to 2: the top two bits of a nibble are both in the low plane already.
    }
  }
}

// How often each code occurs in a row.
template <int kBits>
void CountCodes(const uint8_t* group, int width, Side side, int token, int* counts) {
  for (int i = 0; i < width; ++i) ++counts[GetCode<kBits>(group, width, side, token, i)];
}

// Sums over a row depend on its codes only through their counts; in this order they are the same on every machine.
float ScaleFactor(const Codec& from, const Codec& to, ScaleMode mode, const int* counts) {
  double norm2 = 0.0, cut_norm2 = 0.0, product = 0.0;
  for (int code = 0; code < 1 << from.code_bits; ++code) {
    const double level = from.levels[code];
    const double cut = to.levels[code >> (from.code_bits - to.code_bits)];
    norm2 += counts[code] * level * level;
    cut_norm2 += counts[code] * cut * cut;
    product += counts[code] * level * cut;
  }
  return RowScale(mode, CodeSums{static_cast<float>(norm2), static_cast<float>(cut_norm2), static_cast<float>(product)});
}

}  // namespace

Status CheckDemote(const Codec& from, const Codec& to) {
  const char* reason = nullptr;
  const auto is_lloyd_max = [](const Codec& codec) { return codec.layout == Layout::kPlanes && codec.nearest_levels; };
  if (!is_lloyd_max(from) || !is_lloyd_max(to)) {
    reason = "both must be Lloyd-Max table codes, such as turbo4 and turbo3";
  } else if (from.key_frame != to.key_frame || from.value_frame != to.value_frame) {
    reason = "they store rows in different frames";
  } else if (to.code_bits >= from.code_bits) {
    reason = "the result must have fewer bits";
  }
  if (reason == nullptr) return Status();
  return Status::Unsupported("codes of " + std::string(from.name) + " cannot be cut to " + to.name + ": " + reason);
}

std::span<const float> CutLevels(int from_bits, int to_bits) {
  if (from_bits == 4 && to_bits == 3) return kLloydMax4CutTo3;
  if (from_bits == 4) return kLloydMax4CutTo2;
  return kLloydMax3CutTo2;
}

void DemoteGroup(const Codec& from, const Codec& to, int width, Side side, ScaleMode mode, const uint8_t* group, uint8_t* out) {
  for (int part = 0; part < kGroupTokens / 32; ++part) {
    DemotePart(from.code_bits, to.code_bits, width, side, group + part * Bytes32(from.code_bits, width),
               out + part * Bytes32(to.code_bits, width));
  }
  for (int token = 0; token < kGroupTokens; ++token) {
    float scale = GetPlaneScale(group, from.code_bits, width, token);
    if (scale > 0.0f && std::isfinite(scale)) {
      int counts[16] = {};
      if (from.code_bits == 4) {
        CountCodes<4>(group, width, side, token, counts);
      } else {
        CountCodes<3>(group, width, side, token, counts);
      }
      scale = std::min(scale * ScaleFactor(from, to, mode, counts), std::numeric_limits<float>::max());
    }
    SetPlaneScale(out, to.code_bits, width, token, ScaleFromF32(scale));
  }
}

}  // namespace swivel
