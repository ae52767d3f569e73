// Scores of query rows against a chunk of 64 keys.
//
// Table codes: exact integer products of signed levels and signed query bytes. A few rows (one query, or the heads that share a KV head)
// are scored straight from the codes; many rows first unpack the chunk into a tile that stays in the caches. Other codecs: float tiles.

// Byte tile: [width / 4][4 tiles of 16 tokens][16 tokens][4 coordinates].
template <int kBits, int kHalf>
SWIVEL_INLINE void UnpackKeyTile(const uint8_t* pair, int width, ByteTable table, uint8_t* out) {
  constexpr int kQuads = kQuadsPerBlock<kBits>;
  const uint8_t* codes = pair + kHalf * 64 * (width / (4 * kQuads));
  const uint8_t* high_plane = pair + 8 * width;
  for (int block = 0; block < width / (4 * kQuads); ++block) {
    const I32x16 low = LoadRaw(codes + 64 * block);
    const I32x16 high = kBits == 3 ? LoadRaw(high_plane + 64 * block) : low;
    StoreQuads<kBits, kHalf>(low, high, table, out + static_cast<size_t>(block) * kQuads * kChunkVectors * 64, kChunkVectors * 64);
  }
}

template <int kBits>
SWIVEL_INLINE void UnpackKeyCodes(const uint8_t* group, int width, int chunk, ByteTable table, uint8_t* tile) {
  for (int p = 0; p < 2; ++p) {
    const uint8_t* pair = group + (2 * chunk + p) * Bytes32(kBits, width);
    UnpackKeyTile<kBits, 0>(pair, width, table, tile + 2 * p * 64);
    UnpackKeyTile<kBits, 1>(pair, width, table, tile + (2 * p + 1) * 64);
  }
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

// Query rows as bytes. scores[r][t] = factor[r] * scales[t] * sum_i level_t,i q_r,i; bias[r] = kByteBias * sum_i q_r,i.
struct ByteRows {
  const int8_t* q;
  size_t stride;
  const float* factor;
  const int32_t* bias;
};

SWIVEL_INLINE int32_t QueryWord(const ByteRows& rows, int r, int quad) {
  int32_t word;
  std::memcpy(&word, rows.q + r * rows.stride + 4 * quad, 4);
  return word;
}

SWIVEL_INLINE void StoreScores(const ByteRows& rows, int r, I32x16 sum, const float* scales, float* scores) {
  const F32x16 whole = ToFloat(SubI32(sum, SetI32(rows.bias[r])));
  Store(scores, Mul(whole, Mul(Load(scales), Set(rows.factor[r]))));
}

template <int kRows>
SWIVEL_INLINE void ScoreBytes(const uint8_t* tile, int width, const float* scales, const ByteRows& rows, float* scores) {
  for (int v0 = 0; v0 < kChunkVectors; v0 += kVectorBlock) {
    I32x16 acc[kRows][kVectorBlock];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = ZeroI32();
    }
    for (int quad = 0; quad < width / 4; ++quad) {
      I32x16 keys[kVectorBlock];
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) keys[v] = LoadRaw(tile + (quad * kChunkVectors + v0 + v) * 64);
      SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
        const int32_t word = QueryWord(rows, r, quad);
        SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = DotBytes(acc[r][v], keys[v], word);
      }
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) {
        StoreScores(rows, r, acc[r][v], scales + 16 * (v0 + v), scores + r * kChunk + 16 * (v0 + v));
      }
    }
  }
}

// One field of the blocks of both tiles of a pair.
template <int kBits, int kRows, int kStep = 0>
SWIVEL_INLINE void ScoreQuads(I32x16 low0, I32x16 low1, I32x16 high, ByteTable table, const ByteRows& rows, int quad, I32x16 (&acc)[2][kRows]) {
  if constexpr (kStep < kQuadsPerBlock<kBits>) {
    const I32x16 keys0 = LevelsOfQuad<kBits, 0, kStep>(low0, high, table);
    const I32x16 keys1 = LevelsOfQuad<kBits, 1, kStep>(low1, high, table);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = QueryWord(rows, r, quad + kStep);
      acc[0][r] = DotBytes(acc[0][r], keys0, word);
      acc[1][r] = DotBytes(acc[1][r], keys1, word);
    }
    ScoreQuads<kBits, kRows, kStep + 1>(low0, low1, high, table, rows, quad, acc);
  }
}

// Scores straight from the codes.
template <int kBits, int kRows>
SWIVEL_INLINE void ScoreCodes(const uint8_t* group, int width, int chunk, ByteTable table, const float* scales, const ByteRows& rows, float* scores) {
  constexpr int kQuads = kQuadsPerBlock<kBits>;
  const int blocks = width / (4 * kQuads);
  for (int p = 0; p < 2; ++p) {
    const uint8_t* pair = group + (2 * chunk + p) * Bytes32(kBits, width);
    I32x16 acc[2][kRows];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) acc[0][r] = acc[1][r] = ZeroI32();
    for (int block = 0; block < blocks; ++block) {
      const I32x16 low0 = LoadRaw(pair + 64 * block);
      const I32x16 low1 = LoadRaw(pair + 64 * (blocks + block));
      const I32x16 high = kBits == 3 ? LoadRaw(pair + 64 * (2 * blocks + block)) : low0;
      ScoreQuads<kBits, kRows>(low0, low1, high, table, rows, block * kQuads, acc);
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      StoreScores(rows, r, acc[0][r], scales + 32 * p, scores + r * kChunk + 32 * p);
      StoreScores(rows, r, acc[1][r], scales + 32 * p + 16, scores + r * kChunk + 32 * p + 16);
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
