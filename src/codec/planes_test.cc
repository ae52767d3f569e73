// The bit layout of table codes: every field on its own, every bit used once, nothing outside.
#include "codec/planes.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "codec/test_rows.h"

namespace swivel {
namespace {

// Marks the bits of each field of a group and counts how often each bit is taken.
class BitMap {
 public:
  explicit BitMap(size_t bytes) : taken_(8 * bytes, 0) {}
  void Take(Field field, int bits) {
    ASSERT_GE(field.shift, 0);
    ASSERT_LE(field.shift + bits, 8) << "a field may not cross a byte";
    ASSERT_LT(field.byte, taken_.size() / 8);
    for (int i = 0; i < bits; ++i) ++taken_[8 * field.byte + field.shift + i];
  }
  void ExpectEachOnce() const {
    for (size_t i = 0; i < taken_.size(); ++i) ASSERT_EQ(taken_[i], 1) << "bit " << i % 8 << " of byte " << i / 8;
  }

 private:
  std::vector<int> taken_;
};

TEST(Planes, FieldsTileTheCodesExactly) {
  for (int bits : {2, 3, 4}) {
    for (int width : test_rows::kWidths) {
      SCOPED_TRACE(std::to_string(bits) + " bits, width " + std::to_string(width));
      BitMap keys(ScalesOffset(bits, width)), values(ScalesOffset(bits, width));
      for (int token = 0; token < kGroupTokens; ++token) {
        for (int i = 0; i < width; ++i) {
          keys.Take(KeyField(bits, width, token, i), bits == 4 ? 4 : 2);
          values.Take(ValueField(bits, width, token, i), bits == 4 ? 4 : 2);
          if (bits != 3) continue;
          keys.Take(KeyHighBit(width, token, i), 1);
          values.Take(ValueHighBit(width, token, i), 1);
        }
        if (testing::Test::HasFatalFailure()) return;
      }
      keys.ExpectEachOnce();
      values.ExpectEachOnce();
    }
  }
}

// The pictures of docs/formats.md, written a second time.
TEST(Planes, KeysFollowTheDocumentedPicture) {
  const int width = 96;
  for (int token = 0; token < kGroupTokens; ++token) {
    for (int i = 0; i < width; ++i) {
      SCOPED_TRACE("token " + std::to_string(token) + " coordinate " + std::to_string(i));
      const size_t tile = token / 16;
      const size_t lane = 4 * (token % 16) + i % 4;
      // 4 bits: a tile is width / 8 blocks; 8 coordinates a block, the first 4 in the low nibbles.
      const Field four = KeyField(4, width, token, i);
      ASSERT_EQ(four.byte, tile * width * 8 + i / 8 * 64 + lane);
      ASSERT_EQ(four.shift, i % 8 < 4 ? 0 : 4);
      // 2 bits: width / 16 blocks; 16 coordinates a block.
      const Field two = KeyField(2, width, token, i);
      ASSERT_EQ(two.byte, tile * width * 4 + i / 16 * 64 + lane);
      ASSERT_EQ(two.shift, 2 * (i % 16 / 4));
      // 3 bits: two such tiles, then the high bits of both; the second tile has the high nibbles.
      const size_t pair = static_cast<size_t>(token / 32) * width * 12;
      const Field low = KeyField(3, width, token, i);
      ASSERT_EQ(low.byte, pair + (tile % 2) * width * 4 + i / 16 * 64 + lane);
      ASSERT_EQ(low.shift, two.shift);
      const Field high = KeyHighBit(width, token, i);
      ASSERT_EQ(high.byte, pair + width * 8 + i / 16 * 64 + lane);
      ASSERT_EQ(high.shift, i % 16 / 4 + (tile % 2 == 0 ? 0 : 4));
    }
  }
}

TEST(Planes, ValuesFollowTheDocumentedPicture) {
  const int width = 96;
  for (int token = 0; token < kGroupTokens; ++token) {
    for (int i = 0; i < width; ++i) {
      SCOPED_TRACE("token " + std::to_string(token) + " coordinate " + std::to_string(i));
      const int in_tile = token % 32;
      // A lane of 32 bits holds 4 neighbouring tokens, one a byte; later quads of tokens stand in higher bits.
      // 4 bits: 8 tokens a block; 2 bits: 16 tokens; high bits: 32 tokens.
      const int byte = 8 * (in_tile % 4);
      const int four_bit = byte + 4 * (in_tile % 8 / 4);
      const int two_bit = byte + 2 * (in_tile % 16 / 4);
      const int high_bit = byte + in_tile / 4;
      const size_t lane = static_cast<size_t>(i % 16) * 4;
      const size_t tile4 = static_cast<size_t>(token / 32) * width * 16 + i / 16 * 256;
      const size_t tile3 = static_cast<size_t>(token / 32) * width * 12 + i / 16 * 192;
      const size_t tile2 = static_cast<size_t>(token / 32) * width * 8 + i / 16 * 128;
      const Field four = ValueField(4, width, token, i);
      ASSERT_EQ(four.byte * 8 + four.shift, (tile4 + in_tile / 8 * 64 + lane) * 8 + four_bit);
      const Field two = ValueField(2, width, token, i);
      ASSERT_EQ(two.byte * 8 + two.shift, (tile2 + in_tile / 16 * 64 + lane) * 8 + two_bit);
      const Field low = ValueField(3, width, token, i);
      ASSERT_EQ(low.byte * 8 + low.shift, (tile3 + in_tile / 16 * 64 + lane) * 8 + two_bit);
      const Field high = ValueHighBit(width, token, i);
      ASSERT_EQ(high.byte * 8 + high.shift, (tile3 + 128 + lane) * 8 + high_bit);
    }
  }
}

}  // namespace
}  // namespace swivel
