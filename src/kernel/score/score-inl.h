// Scores of query rows against keys of one group.
//
// Table codes: exact integer products of signed levels and signed query bytes. A few rows (one query, or the heads that share a KV head)
// are scored straight from the codes; many rows first unpack the group into a tile that stays in the caches. Other codecs: float tiles.

// Byte tile: [width / 4][8 vectors of 16 tokens][16 tokens][4 coordinates].
template <int kBits, int kHalf>
SWIVEL_INLINE void UnpackKeyTile(const uint8_t* pair, int width, ByteTable table, uint8_t* out) {
  constexpr int kQuads = kQuadsPerBlock<kBits>;
  const uint8_t* codes = pair + kHalf * 64 * (width / (4 * kQuads));
  const uint8_t* high_plane = pair + 8 * width;
  for (int block = 0; block < width / (4 * kQuads); ++block) {
    const I32x16 low = LoadRaw(codes + 64 * block);
    const I32x16 high = kBits == 3 ? LoadRaw(high_plane + 64 * block) : low;
    StoreQuads<kBits, kHalf>(low, high, table, out + static_cast<size_t>(block) * kQuads * kGroupVectors * 64, kGroupVectors * 64);
  }
}

template <int kBits>
SWIVEL_INLINE void UnpackKeyCodes(const uint8_t* group, int width, Span span, ByteTable table, uint8_t* tile) {
  for (int v = span.begin; v < span.end; v += 2) {
    const uint8_t* pair = group + v / 2 * Bytes32(kBits, width);
    UnpackKeyTile<kBits, 0>(pair, width, table, tile + v * 64);
    UnpackKeyTile<kBits, 1>(pair, width, table, tile + (v + 1) * 64);
  }
}

// Float tile: [width][128 tokens].
SWIVEL_INLINE void UnpackKeyFloats(const Codec& codec, const uint8_t* group, int width, Span span, float* tile) {
  if (codec.layout == Layout::kF16 || codec.layout == Layout::kBf16) {
    const uint16_t* half = reinterpret_cast<const uint16_t*>(group);
    for (int v = span.begin; v < span.end; ++v) {
      for (int i = 0; i < width; ++i) {
        const uint16_t* at = half + (static_cast<size_t>(v) * width + i) * 16;
        Store(tile + i * kGroupTokens + 16 * v, codec.layout == Layout::kF16 ? LoadF16(at) : LoadBf16(at));
      }
    }
  } else {
    float row[kMaxHeadWidth];
    for (int token = 16 * span.begin; token < 16 * span.end; ++token) {
      codec.decode_in_frame(group, width, Side::kKey, token, row);
      for (int i = 0; i < width; ++i) tile[i * kGroupTokens + token] = row[i];
    }
  }
}

// Adds a bit to `poison` for each token of a float tile that holds a NaN or an infinity (its values become 0).
SWIVEL_INLINE void CheckKeyFloats(int width, Span span, float* tile, TokenBits* poison) {
  for (int v = span.begin; v < span.end; ++v) {
    float* column = tile + 16 * v;
    F32x16 check = Zero();
    for (int i = 0; i < width; ++i) check = Add(check, Mul(Load(column + i * kGroupTokens), Zero()));
    const uint32_t finite = LessBits(check, Set(1.0f));
    if (finite == 0xffffu) continue;
    poison->AddVector(v, ~finite & 0xffffu);
    for (int i = 0; i < width; ++i) Store(column + i * kGroupTokens, SelectBits(finite, Load(column + i * kGroupTokens), Zero()));
  }
}

// Query rows as bytes. scores[r][t] = scales[t] * sum_i level_t,i q_r,i; bias[r] = -kByteBias * sum_i q_r,i.
struct ByteRows {
  const int8_t* q;
  size_t stride;
  const int32_t* bias;
};

SWIVEL_INLINE int32_t QueryWord(const ByteRows& rows, int r, int quad) {
  int32_t word;
  std::memcpy(&word, rows.q + r * rows.stride + 4 * quad, 4);
  return word;
}

SWIVEL_INLINE void StoreScores(I32x16 sum, const float* scales, float* scores) { Store(scores, Mul(ToFloat(sum), Load(scales))); }

// `span` in multiples of kVectorBlock.
template <int kRows>
SWIVEL_INLINE void ScoreBytes(const uint8_t* tile, int width, Span span, const float* scales, const ByteRows& rows, float* scores) {
  for (int v0 = span.begin; v0 < span.end; v0 += kVectorBlock) {
    I32x16 acc[kRows][kVectorBlock];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = SetI32(rows.bias[r]);
    }
    for (int quad = 0; quad < width / 4; ++quad) {
      I32x16 keys[kVectorBlock];
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) keys[v] = LoadRaw(tile + (quad * kGroupVectors + v0 + v) * 64);
      SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
        const int32_t word = QueryWord(rows, r, quad);
        SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = DotBytes(acc[r][v], keys[v], word);
      }
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) {
        StoreScores(acc[r][v], scales + 16 * (v0 + v), scores + r * kGroupTokens + 16 * (v0 + v));
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

// Scores straight from the codes. `ahead`: where the next group's bytes are from this one's; they are fetched meanwhile.
template <int kBits, int kRows>
SWIVEL_INLINE void ScoreCodes(const uint8_t* group, int width, Span span, size_t ahead, ByteTable table, const float* scales, const ByteRows& rows,
                              float* scores) {
  constexpr int kQuads = kQuadsPerBlock<kBits>;
  const int blocks = width / (4 * kQuads);
  for (int v = span.begin; v < span.end; v += 2) {
    const uint8_t* pair = group + v / 2 * Bytes32(kBits, width);
    I32x16 acc[2][kRows];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) acc[0][r] = acc[1][r] = SetI32(rows.bias[r]);
    for (int block = 0; block < blocks; ++block) {
      const uint8_t* at = pair + 64 * block;
      const I32x16 low0 = LoadRaw(at);
      const I32x16 low1 = LoadRaw(at + 64 * blocks);
      const I32x16 high = kBits == 3 ? LoadRaw(at + 128 * blocks) : low0;
      constexpr int kLines = kBits == 3 ? 3 : 2;
      SWIVEL_UNROLL for (int line = 0; line < kLines; ++line) Prefetch(pair + ahead + (kLines * block + line) * 64);
      ScoreQuads<kBits, kRows>(low0, low1, high, table, rows, block * kQuads, acc);
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      StoreScores(acc[0][r], scales + 16 * v, scores + r * kGroupTokens + 16 * v);
      StoreScores(acc[1][r], scales + 16 * v + 16, scores + r * kGroupTokens + 16 * v + 16);
    }
  }
}

// `span` in multiples of kVectorBlock.
template <int kRows>
SWIVEL_INLINE void ScoreFloats(const float* tile, int width, Span span, const float* q, size_t q_stride, float* scores) {
  for (int v0 = span.begin; v0 < span.end; v0 += kVectorBlock) {
    F32x16 acc[kRows][kVectorBlock];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = Zero();
    }
    for (int i = 0; i < width; ++i) {
      F32x16 keys[kVectorBlock];
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) keys[v] = Load(tile + i * kGroupTokens + 16 * (v0 + v));
      SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
        const F32x16 qi = Set(q[r * q_stride + i]);
        SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) acc[r][v] = MulAdd(keys[v], qi, acc[r][v]);
      }
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      SWIVEL_UNROLL for (int v = 0; v < kVectorBlock; ++v) Store(scores + r * kGroupTokens + 16 * (v0 + v), acc[r][v]);
    }
  }
}
