// From packed codes to levels: the signed bytes of the codec's ByteLevels.
//
// Keys and values share one shape (codec/planes.h): 16 lanes, four bytes a lane, several fields a byte. A *quad* is what one field of a
// block yields: for keys 4 neighbouring coordinates of 16 tokens, for values 4 neighbouring tokens of 16 coordinates.

inline constexpr int kChunk = 64;  // tokens that are scored and accumulated together
inline constexpr int kChunkVectors = kChunk / 16;

// The levels of a codec as lookups want them; codebooks of fewer than 16 levels are repeated.
struct LevelTables {
  alignas(64) uint8_t key_bytes[16];    // level + kByteBias
  alignas(64) uint8_t value_bytes[16];  // two's complement
  float step;                           // what one unit is worth
};

SWIVEL_INLINE LevelTables MakeLevelTables(const Codec& codec) {
  LevelTables tables;
  const int count = 1 << codec.code_bits;
  tables.step = codec.byte_levels->step;
  for (int i = 0; i < 16; ++i) {
    const int level = codec.byte_levels->level[i % count];
    tables.key_bytes[i] = static_cast<uint8_t>(level + kByteBias);
    tables.value_bytes[i] = static_cast<uint8_t>(level);
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

// The 64 scales of a chunk as floats; returns a bit for each token whose row is NaN (its scale becomes 0).
SWIVEL_INLINE uint64_t LoadScales(const uint8_t* group, int bits, int width, int chunk, float* scales) {
  uint16_t stored[kChunk];
  std::memcpy(stored, group + ScalesOffset(bits, width) + 2 * kChunk * chunk, sizeof(stored));
  uint64_t poison = 0;
  for (int v = 0; v < kChunkVectors; ++v) {
    const F32x16 scale = LoadScale(stored + 16 * v);
    const uint32_t finite = LessBits(scale, Set(std::numeric_limits<float>::infinity()));
    poison |= static_cast<uint64_t>(~finite & 0xffffu) << (16 * v);
    Store(scales + 16 * v, SelectBits(finite, scale, Zero()));
  }
  return poison;
}
