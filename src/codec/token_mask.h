// A bit for each cell of a group.
#ifndef SWIVEL_CODEC_TOKEN_MASK_H_
#define SWIVEL_CODEC_TOKEN_MASK_H_

#include <bit>
#include <cstdint>

namespace swivel {

inline constexpr int kGroupTokens = 128;

struct TokenMask {
  uint64_t word[kGroupTokens / 64] = {};

  bool Has(int token) const { return (word[token / 64] >> (token % 64) & 1) != 0; }
  void Add(int token) { word[token / 64] |= uint64_t{1} << (token % 64); }
  void Remove(int token) { word[token / 64] &= ~(uint64_t{1} << (token % 64)); }
  bool Any() const { return (word[0] | word[1]) != 0; }
  int Count() const { return std::popcount(word[0]) + std::popcount(word[1]); }

  // The first `count` tokens.
  static TokenMask First(int64_t count) {
    TokenMask mask;
    for (int w = 0; w < 2; ++w) {
      const int64_t bits = count - 64 * w;
      mask.word[w] = bits >= 64 ? ~uint64_t{0} : bits <= 0 ? 0 : (uint64_t{1} << bits) - 1;
    }
    return mask;
  }

  friend TokenMask operator&(TokenMask a, TokenMask b) { return {{a.word[0] & b.word[0], a.word[1] & b.word[1]}}; }
  friend TokenMask operator|(TokenMask a, TokenMask b) { return {{a.word[0] | b.word[0], a.word[1] | b.word[1]}}; }
  friend TokenMask operator^(TokenMask a, TokenMask b) { return {{a.word[0] ^ b.word[0], a.word[1] ^ b.word[1]}}; }
  friend TokenMask operator~(TokenMask a) { return {{~a.word[0], ~a.word[1]}}; }
  friend bool operator==(const TokenMask& a, const TokenMask& b) = default;
};
static_assert(kGroupTokens == 128);

}  // namespace swivel

#endif  // SWIVEL_CODEC_TOKEN_MASK_H_
