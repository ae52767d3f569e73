// Arbitrary bytes as packed rows: decoding and copying never read or write outside the group, and all targets encode alike whatever
// floats come.
//
// Input: 4 bytes that choose codec, width, side and token, then the bytes of the group (repeated to its size).
#include <cstring>
#include <vector>

#include "codec/codec.h"
#include "fuzz.h"
#include "kernel/kernels.h"

const FuzzSeed kFuzzSeeds[] = {{nullptr, 0}};

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace swivel;
  if (size < 5) return 0;
  const Codec& codec = *AllCodecs()[data[0] % AllCodecs().size()];
  const int width = 16 * (2 + data[1] % 35);
  if (!CheckWidth(codec, width).ok()) return 0;
  const Side side = data[2] % 2 == 0 ? Side::kKey : Side::kValue;
  const ScaleMode mode = static_cast<ScaleMode>(data[2] / 2 % 3);
  const int token = data[3] % kGroupTokens;
  data += 4;
  size -= 4;

  // Exactly as large as the group: AddressSanitizer guards both ends.
  std::vector<uint8_t> group(codec.group_bytes(width));
  for (size_t i = 0; i < group.size(); ++i) group[i] = data[i % size];
  std::vector<float> row(static_cast<size_t>(width)), copy(row);
  DecodeRow(codec, group.data(), width, side, token, row.data());

  if (codec.encodes_groups()) {
    // Rows that come later to a group of any bytes: those beside them keep their meaning, what does not fit is told.
    std::vector<float> rows(static_cast<size_t>(width) * kGroupTokens);
    for (size_t i = 0; i < rows.size(); ++i) {
      uint32_t bits = 0;
      for (size_t b = 0; b < 4; ++b) bits = bits << 8 | data[(4 * i + b) % size];
      std::memcpy(&rows[i], &bits, 4);
    }
    TokenMask tokens = {{~uint64_t{0} << token % 64, 0x5555555555555555u}};
    const TokenMask packed = {{data[0] * uint64_t{0x9e3779b97f4a7c15}, data[size - 1] * uint64_t{0x9e3779b97f4a7c15}}};
    std::vector<uint8_t> after = group;
    codec.encode_group(rows.data(), static_cast<size_t>(width), tokens, packed, width, side, after.data());
    for (int t = 0; t < kGroupTokens; ++t) {
      if (!packed.Has(t) || tokens.Has(t)) continue;
      codec.decode_in_frame(group.data(), width, side, t, row.data());
      codec.decode_in_frame(after.data(), width, side, t, copy.data());
      FUZZ_CHECK(std::memcmp(row.data(), copy.data(), row.size() * sizeof(float)) == 0);
    }
    return 0;
  }

  std::vector<uint8_t> other(group.size(), 0);
  codec.copy_row(group.data(), token, width, side, other.data(), kGroupTokens - 1 - token);
  codec.decode_in_frame(group.data(), width, side, token, row.data());
  codec.decode_in_frame(other.data(), width, side, kGroupTokens - 1 - token, copy.data());
  FUZZ_CHECK(std::memcmp(row.data(), copy.data(), row.size() * sizeof(float)) == 0);

  // The same bytes as floats, NaN included: every target writes what the scalar codec writes.
  for (size_t i = 0; i < row.size(); ++i) {
    uint32_t bits = 0;
    for (size_t b = 0; b < 4; ++b) bits = bits << 8 | data[(4 * i + b) % size];
    std::memcpy(&row[i], &bits, 4);
  }
  std::vector<uint8_t> expected = group;
  codec.encode(row.data(), width, side, mode, expected.data(), token);
  for (Target target : SupportedTargets()) {
    std::vector<uint8_t> actual = group;
    KernelsFor(target).encode(codec, row.data(), width, side, mode, actual.data(), token);
    FUZZ_CHECK(actual == expected);
  }
  DecodeRow(codec, expected.data(), width, side, token, row.data());
  return 0;
}
