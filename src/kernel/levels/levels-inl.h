// From packed codes to levels: the signed bytes of the codec's ByteLevels.
//
// Keys and values share one shape (codec/planes.h): 16 lanes, four bytes a lane, several fields a byte. A *quad* is what one field of a
// block yields: for keys 4 neighbouring coordinates of 16 tokens, for values 4 neighbouring tokens of 16 coordinates.

inline constexpr int kGroupVectors = kGroupTokens / 16;

// A run of vectors of 16 tokens within a group, [begin, end). Both are even: 32 tokens are the least that share bytes.
struct Span {
  int begin, end;
};

// One bit for each token of a group.
struct TokenBits {
  uint64_t word[2] = {0, 0};

  uint32_t OfVector(int v) const { return static_cast<uint32_t>(word[v / 4] >> (16 * (v % 4))) & 0xffffu; }
  void AddVector(int v, uint32_t bits) { word[v / 4] |= static_cast<uint64_t>(bits) << (16 * (v % 4)); }
  bool Any() const { return (word[0] | word[1]) != 0; }
  bool All() const { return (word[0] & word[1]) == ~uint64_t{0}; }
};

// Calls f.operator()<bits>() for the number of code bits of a codec that is read straight from its codes, 2 to 4.
template <class F>
SWIVEL_INLINE void WithBits(int bits, F f) {
  if (bits == 2) return f.template operator()<2>();
  if (bits == 3) return f.template operator()<3>();
  f.template operator()<4>();
}

// The levels of a codec as lookups want them: by code, 16 entries, codebooks of fewer levels repeated; trellis codes: MakeTrellisTables.
struct LevelTables {
  alignas(64) uint8_t key_bytes[kMaxTrellisLevels];    // level + kByteBias
  alignas(64) uint8_t value_bytes[kMaxTrellisLevels];  // level + kValueBias
  float step;                           // what one unit is worth
};

SWIVEL_INLINE LevelTables MakeLevelTables(const Codec& codec) {
  LevelTables tables;
  const int count = 1 << codec.code_bits;
  const ByteLevels& book = kNarrowLevels ? codec.books->narrow : codec.books->wide;
  tables.step = book.step;
  for (int i = 0; i < 16; ++i) {
    const int level = book.level[i % count];
    tables.key_bytes[i] = static_cast<uint8_t>(level + kByteBias);
    tables.value_bytes[i] = static_cast<uint8_t>(level + kValueBias);
  }
  return tables;
}

// Quads a block of 64 bytes of the low plane yields.
template <int kBits>
inline constexpr int kQuadsPerBlock = kBits == 4 ? 2 : 4;

// Quad `kStep` of a low block. 3 bits: the block's high bits are the half `kHalf` of the high block.
template <int kBits, int kHalf, int kStep>
SWIVEL_INLINE I32x16 LevelsOfQuad(I32x16 low, I32x16 high, ByteTable table) {
  if constexpr (kBits == 4) return LookupBytes<4>(table, FieldDown<4 * kStep>(low));
  if constexpr (kBits == 2) return LookupBytes<2>(table, FieldDown<2 * kStep>(low));
  if constexpr (kBits == 3) return LookupBytes<3>(table, JoinBytes(FieldDown<2 * kStep>(low), FieldDown<4 * kHalf + kStep - 2>(high)));
}

// Stores the quads of one block `quad_stride` bytes apart.
template <int kBits, int kHalf, int kStep = 0>
SWIVEL_INLINE void StoreQuads(I32x16 low, I32x16 high, ByteTable table, uint8_t* out, size_t quad_stride) {
  if constexpr (kStep < kQuadsPerBlock<kBits>) {
    StoreRaw(out + kStep * quad_stride, LevelsOfQuad<kBits, kHalf, kStep>(low, high, table));
    StoreQuads<kBits, kHalf, kStep + 1>(low, high, table, out, quad_stride);
  }
}

// The stored scales (e8m8) of a span as floats; adds a bit to `poison` for each token whose row is NaN (its scale becomes 0).
SWIVEL_INLINE void WidenScales(const uint16_t* stored, Span span, float* scales, TokenBits* poison) {
  for (int v = span.begin; v < span.end; ++v) {
    const F32x16 scale = LoadScale(stored + 16 * v);
    const uint32_t finite = LessBits(scale, Set(std::numeric_limits<float>::infinity()));
    if (finite != 0xffffu) poison->AddVector(v, ~finite & 0xffffu);
    Store(scales + 16 * v, SelectBits(finite, scale, Zero()));
  }
}
