// Scores of query rows against a chunk of 64 keys.
//
// A chunk is first unpacked into a tile that stays in the caches, then every block of rows of the same KV head is multiplied with it.
// Table codes become signed bytes (level * 127 / largest level) and products are exact integers; other codecs become floats.

inline constexpr int kChunk = 64;
inline constexpr int kChunkVectors = kChunk / 16;

// Level tables of a codec in the forms that the lookups want; codebooks of fewer than 16 levels are repeated.
struct LevelTables {
  alignas(64) uint8_t bytes[16];  // round(level * 127 / largest) + kByteBias
  alignas(64) int16_t words[16];  // round(level * 2047 / largest)
  float byte_step, word_step;     // what one unit of each is worth
};

SWIVEL_INLINE LevelTables MakeLevelTables(const Codec& codec) {
  LevelTables tables;
  const int count = 1 << codec.code_bits;
  const float largest = std::max(-codec.levels[0], codec.levels[count - 1]);
  tables.byte_step = largest / 127.0f;
  tables.word_step = largest / 2047.0f;
  for (int i = 0; i < 16; ++i) {
    const float level = codec.levels[i % count];
    tables.bytes[i] = static_cast<uint8_t>(std::lrint(level / tables.byte_step) + kByteBias);
    tables.words[i] = static_cast<int16_t>(std::lrint(level / tables.word_step));
  }
  return tables;
}

// Byte tile: [width / 4][4 tiles of 16 tokens][16 tokens][4 coordinates].
SWIVEL_INLINE uint8_t* KeyTileAt(uint8_t* tile, int quad, int tile16) { return tile + (quad * kChunkVectors + tile16) * 64; }

template <int kBits, int kHalf, int kStep>
SWIVEL_INLINE void UnpackKeyQuad(I32x16 low, I32x16 high, ByteTable table, uint8_t* tile, int quad, int tile16) {
  I32x16 index;
  if constexpr (kBits == 4) index = FieldDown<4 * kStep>(low);
  if constexpr (kBits == 2) index = FieldDown<2 * kStep>(low);
  if constexpr (kBits == 3) index = JoinBytes(FieldDown<2 * kStep>(low), FieldDown<4 * kHalf + kStep - 2>(high));
  StoreRaw(KeyTileAt(tile, quad, tile16), LookupBytes<kBits>(table, index));
}

// One of the two tiles of 16 tokens of a pair.
template <int kBits, int kHalf>
SWIVEL_INLINE void UnpackKeyTile(const uint8_t* pair, int width, ByteTable table, uint8_t* tile, int tile16) {
  if constexpr (kBits == 4) {
    const uint8_t* codes = pair + kHalf * 8 * width;
    for (int quad = 0; quad < width / 4; quad += 2) {
      const I32x16 low = LoadRaw(codes + quad / 2 * 64);
      UnpackKeyQuad<4, kHalf, 0>(low, low, table, tile, quad, tile16);
      UnpackKeyQuad<4, kHalf, 1>(low, low, table, tile, quad + 1, tile16);
    }
  } else {
    const uint8_t* codes = pair + kHalf * 4 * width;
    for (int quad = 0; quad < width / 4; quad += 4) {
      const I32x16 low = LoadRaw(codes + quad / 4 * 64);
      I32x16 high = low;
      if constexpr (kBits == 3) high = LoadRaw(pair + 8 * width + quad / 4 * 64);
      UnpackKeyQuad<kBits, kHalf, 0>(low, high, table, tile, quad, tile16);
      UnpackKeyQuad<kBits, kHalf, 1>(low, high, table, tile, quad + 1, tile16);
      UnpackKeyQuad<kBits, kHalf, 2>(low, high, table, tile, quad + 2, tile16);
      UnpackKeyQuad<kBits, kHalf, 3>(low, high, table, tile, quad + 3, tile16);
    }
  }
}

template <int kBits>
SWIVEL_INLINE void UnpackKeyCodes(const uint8_t* group, int width, int chunk, ByteTable table, uint8_t* tile) {
  for (int p = 0; p < 2; ++p) {
    const uint8_t* pair = group + (2 * chunk + p) * Bytes32(kBits, width);
    UnpackKeyTile<kBits, 0>(pair, width, table, tile, 2 * p);
    UnpackKeyTile<kBits, 1>(pair, width, table, tile, 2 * p + 1);
  }
}

// The 64 scales of a chunk as floats; returns a bit for each token whose row is NaN (its scale becomes 0).
SWIVEL_INLINE uint64_t UnpackScales(const uint8_t* group, int bits, int width, int chunk, float* scales) {
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

// Float tile: [width][64 tokens]. Returns a bit for each token that holds a NaN or an infinity (its values become 0).
SWIVEL_INLINE uint64_t UnpackKeyFloats(const Codec& codec, const uint8_t* group, int width, int chunk, float* tile) {
  if (codec.layout == Layout::kF16 || codec.layout == Layout::kBf16) {
    const uint16_t* half = reinterpret_cast<const uint16_t*>(group) + static_cast<size_t>(chunk) * kChunk * width;
    for (int tile16 = 0; tile16 < kChunkVectors; ++tile16) {
      for (int i = 0; i < width; ++i) {
        const uint16_t* at = half + (static_cast<size_t>(tile16) * width + i) * 16;
        Store(tile + i * kChunk + 16 * tile16, codec.layout == Layout::kF16 ? LoadF16(at) : LoadBf16(at));
      }
    }
  } else {
    float row[kMaxHeadWidth];
    for (int token = 0; token < kChunk; ++token) {
      codec.decode_in_frame(group, width, Side::kKey, chunk * kChunk + token, row);
      for (int i = 0; i < width; ++i) tile[i * kChunk + token] = row[i];
    }
  }
  uint64_t poison = 0;
  for (int v = 0; v < kChunkVectors; ++v) {
    F32x16 check = Zero();
    for (int i = 0; i < width; ++i) check = Add(check, Mul(Load(tile + i * kChunk + 16 * v), Zero()));
    const uint32_t finite = LessBits(check, Set(1.0f));
    if (finite != 0xffffu) {
      poison |= static_cast<uint64_t>(~finite & 0xffffu) << (16 * v);
      for (int i = 0; i < width; ++i) Store(tile + i * kChunk + 16 * v, SelectBits(finite, Load(tile + i * kChunk + 16 * v), Zero()));
    }
  }
  return poison;
}

// scores[r][t] = factor[r] * scales[t] * sum_i level_t,i q_r,i  for kRows rows of signed bytes; `bias[r]` = kByteBias * sum_i q_r,i.
template <int kRows>
SWIVEL_INLINE void ScoreBytes(const uint8_t* tile, int width, const float* scales, const int8_t* q, size_t q_stride, const float* factor,
                              const int32_t* bias, float* scores) {
  for (int v0 = 0; v0 < kChunkVectors; v0 += kVectorBlock) {
    I32x16 acc[kRows][kVectorBlock];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = ZeroI32();
    }
    for (int quad = 0; quad < width / 4; ++quad) {
      I32x16 keys[kVectorBlock];
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) keys[v] = LoadRaw(tile + (quad * kChunkVectors + v0 + v) * 64);
      SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
        int32_t word;
        std::memcpy(&word, q + r * q_stride + 4 * quad, 4);
        SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = DotBytes(acc[r][v], keys[v], word);
      }
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) {
        const F32x16 whole = ToFloat(SubI32(acc[r][v], SetI32(bias[r])));
        Store(scores + r * kChunk + 16 * (v0 + v), Mul(whole, Mul(Load(scales + 16 * (v0 + v)), Set(factor[r]))));
      }
    }
  }
}

template <int kRows>
SWIVEL_INLINE void ScoreFloats(const float* tile, int width, const float* q, size_t q_stride, const float* factor, float* scores) {
  for (int v0 = 0; v0 < kChunkVectors; v0 += kVectorBlock) {
    F32x16 acc[kRows][kVectorBlock];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = Zero();
    }
    for (int i = 0; i < width; ++i) {
      F32x16 keys[kVectorBlock];
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) keys[v] = Load(tile + i * kChunk + 16 * (v0 + v));
      SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
        const F32x16 qi = Set(q[r * q_stride + i]);
        SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = MulAdd(keys[v], qi, acc[r][v]);
      }
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) Store(scores + r * kChunk + 16 * (v0 + v), Mul(acc[r][v], Set(factor[r])));
    }
  }
}
