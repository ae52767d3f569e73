// Weighted sums of the values of one group into output rows.
//
// Table codes: exact integer products of signed levels and weights that are bytes (attend/softmax-inl.h). A few rows are summed straight
// from the codes; many rows first unpack the group into a tile. Other codecs: float tiles.

// Byte tile: [32 quads of tokens][width][4 tokens].
template <int kBits, int kHalf, int kBlock>
SWIVEL_INLINE void UnpackValueBlock(const uint8_t* codes, ByteTable table, uint8_t* out, int width) {
  const I32x16 low = LoadRaw(codes + 64 * kBlock);
  const I32x16 high = kBits == 3 ? LoadRaw(codes + 128) : low;
  StoreQuads<kBits, kHalf>(low, high, table, out + static_cast<size_t>(kBlock) * kQuadsPerBlock<kBits> * width * 4, static_cast<size_t>(width) * 4);
}

template <int kBits>
SWIVEL_INLINE void UnpackValueCodes(const uint8_t* group, int width, Span span, ByteTable table, uint8_t* tile) {
  for (int t = span.begin / 2; t < span.end / 2; ++t) {
    const uint8_t* tile32 = group + t * Bytes32(kBits, width);
    for (int i = 0; i < width; i += 16) {
      const uint8_t* codes = tile32 + i / 16 * 64 * kBits;
      uint8_t* out = tile + (static_cast<size_t>(8 * t) * width + i) * 4;
      UnpackValueBlock<kBits, 0, 0>(codes, table, out, width);
      UnpackValueBlock<kBits, 1, 1>(codes, table, out, width);
      if constexpr (kBits == 4) {
        UnpackValueBlock<4, 0, 2>(codes, table, out, width);
        UnpackValueBlock<4, 1, 3>(codes, table, out, width);
      }
    }
  }
}

// Float tile: [128 tokens][width].
SWIVEL_INLINE void UnpackValueFloats(const Codec& codec, const uint8_t* group, int width, Span span, float* tile) {
  for (int token = 16 * span.begin; token < 16 * span.end; ++token) {
    float* row = tile + static_cast<size_t>(token) * width;
    if (codec.layout == Layout::kF16 || codec.layout == Layout::kBf16) {
      const uint16_t* half = reinterpret_cast<const uint16_t*>(group) + static_cast<size_t>(token) * width;
      for (int i = 0; i < width; i += 16) Store(row + i, codec.layout == Layout::kF16 ? LoadF16(half + i) : LoadBf16(half + i));
    } else {
      codec.decode_in_frame(group, width, Side::kValue, token, row);
    }
  }
}

// Adds a bit to `poison` for each token of a float tile that holds a NaN or an infinity (its values become 0).
SWIVEL_INLINE void CheckValueFloats(int width, Span span, float* tile, TokenBits* poison) {
  for (int token = 16 * span.begin; token < 16 * span.end; ++token) {
    float* row = tile + static_cast<size_t>(token) * width;
    F32x16 check = Zero();
    for (int i = 0; i < width; i += 16) check = Add(check, Mul(Load(row + i), Zero()));
    if (ReduceAdd(check) == 0.0f) continue;
    poison->AddVector(token / 16, 1u << (token % 16));
    for (int i = 0; i < width; i += 16) Store(row + i, Zero());
  }
}

// Weights of rows, [rows][128 tokens]; what a unit is worth and what earlier sums are to be multiplied by, [rows];
// bias[r] = -kValueBias * sum_t bytes_r,t.
struct WeightRows {
  const uint8_t* bytes;
  const int32_t* bias;
  const float* floats;
  const float* step;
  const float* keep;
};

SWIVEL_INLINE int32_t WeightWord(const uint8_t* weights, int r, int quad) {
  int32_t word;
  std::memcpy(&word, weights + r * kGroupTokens + 4 * quad, 4);
  return word;
}

SWIVEL_INLINE void AddToRow(float* at, I32x16 sum, float step, float keep) {
  Store(at, MulAdd(ToFloat(sum), Set(step), Mul(Load(at), Set(keep))));
}

// out[r] = out[r] * keep[r] + step[r] * sum_t weight_r,t level_t for kCount vectors of coordinates from `i`.
template <int kRows, int kCount>
SWIVEL_INLINE void AccumulateBytesAt(const uint8_t* tile, int width, Span span, int i, const WeightRows& rows, float* out) {
  I32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = kValueBias == 0 ? ZeroI32() : SetI32(rows.bias[r]);
  }
  for (int quad = 4 * span.begin; quad < 4 * span.end; ++quad) {
    I32x16 values[kCount];
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) values[v] = LoadRaw(tile + (static_cast<size_t>(quad) * width + i + 16 * v) * 4);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = WeightWord(rows.bytes, r, quad);
      SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = DotWeights(acc[r][v], values[v], word);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) AddToRow(out + static_cast<size_t>(r) * width + i + 16 * v, acc[r][v], rows.step[r], rows.keep[r]);
  }
}

template <int kRows>
SWIVEL_INLINE void AccumulateBytes(const uint8_t* tile, int width, Span span, const WeightRows& rows, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateBytesAt<kRows, kVectorBlock>(tile, width, span, i, rows, out);
  for (; i < width; i += 16) AccumulateBytesAt<kRows, 1>(tile, width, span, i, rows, out);
}

// One block of kCount neighbouring vectors of coordinates; `quad` counts from the group's first token.
template <int kBits, int kHalf, int kRows, int kCount, int kStep = 0>
SWIVEL_INLINE void AccumulateQuads(const I32x16 (&low)[kCount], const I32x16 (&high)[kCount], ByteTable table, const uint8_t* weights, int quad,
                                   I32x16 (&acc)[kRows][kCount]) {
  if constexpr (kStep < kQuadsPerBlock<kBits>) {
    I32x16 values[kCount];
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) values[c] = LevelsOfQuad<kBits, kHalf, kStep>(low[c], high[c], table);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = WeightWord(weights, r, quad + kStep);
      SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) acc[r][c] = DotWeights(acc[r][c], values[c], word);
    }
    AccumulateQuads<kBits, kHalf, kRows, kCount, kStep + 1>(low, high, table, weights, quad, acc);
  }
}

template <int kBits, int kBlock, int kRows, int kCount>
SWIVEL_INLINE void AccumulateBlock(const uint8_t* codes, const uint8_t* next, const I32x16 (&high)[kCount], ByteTable table, const uint8_t* weights, int quad,
                                   I32x16 (&acc)[kRows][kCount]) {
  // The lines of `next` are dealt out evenly to its blocks (3 bits: two blocks for three lines a vector).
  constexpr int kBlocks = kBits == 4 ? 4 : 2;
  constexpr int kLines = kBits * kCount;
  SWIVEL_UNROLL for (int line = kLines * kBlock / kBlocks; line < kLines * (kBlock + 1) / kBlocks; ++line) Prefetch(next + 64 * line);
  I32x16 low[kCount];
  SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) low[c] = LoadRaw(codes + c * 64 * kBits + 64 * kBlock);
  AccumulateQuads<kBits, kBlock % 2, kRows, kCount>(low, high, table, weights, quad + kBlock * kQuadsPerBlock<kBits>, acc);
}

template <int kBits, int kRows, int kCount>
SWIVEL_INLINE void AccumulateCodesAt(const uint8_t* group, int width, Span span, size_t ahead, int i, ByteTable table, const WeightRows& rows,
                                     float* out) {
  I32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) acc[r][c] = kValueBias == 0 ? ZeroI32() : SetI32(rows.bias[r]);
  }
  for (int t = span.begin / 2; t < span.end / 2; ++t) {
    const uint8_t* codes = group + t * Bytes32(kBits, width) + i * 4 * kBits;
    const uint8_t* next = group + ahead + (static_cast<size_t>(i) * 16 + t * 64 * kCount) * kBits;
    I32x16 high[kCount];
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) {
      const uint8_t* at = codes + c * 64 * kBits + (kBits == 3 ? 128 : 0);
      high[c] = LoadRaw(at);
    }
    AccumulateBlock<kBits, 0, kRows, kCount>(codes, next, high, table, rows.bytes, 8 * t, acc);
    AccumulateBlock<kBits, 1, kRows, kCount>(codes, next, high, table, rows.bytes, 8 * t, acc);
    if constexpr (kBits == 4) {
      AccumulateBlock<4, 2, kRows, kCount>(codes, next, high, table, rows.bytes, 8 * t, acc);
      AccumulateBlock<4, 3, kRows, kCount>(codes, next, high, table, rows.bytes, 8 * t, acc);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) AddToRow(out + static_cast<size_t>(r) * width + i + 16 * c, acc[r][c], rows.step[r], rows.keep[r]);
  }
}

// Straight from the codes; `ahead` as in ScoreCodes. Two vectors of coordinates share each broadcast weight and hide the latency of the dots.
template <int kBits, int kRows>
SWIVEL_INLINE void AccumulateCodes(const uint8_t* group, int width, Span span, size_t ahead, ByteTable table, const WeightRows& rows, float* out) {
  int i = 0;
  for (; i + 32 <= width; i += 32) AccumulateCodesAt<kBits, kRows, 2>(group, width, span, ahead, i, table, rows, out);
  if (i < width) AccumulateCodesAt<kBits, kRows, 1>(group, width, span, ahead, i, table, rows, out);
}

template <int kRows, int kCount>
SWIVEL_INLINE void AccumulateFloatsAt(const float* tile, int width, Span span, int i, const WeightRows& rows, float* out) {
  F32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = Mul(Load(out + static_cast<size_t>(r) * width + i + 16 * v), Set(rows.keep[r]));
  }
  for (int token = 16 * span.begin; token < 16 * span.end; ++token) {
    F32x16 values[kCount];
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) values[v] = Load(tile + static_cast<size_t>(token) * width + i + 16 * v);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = Set(rows.floats[r * kGroupTokens + token]);
      SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = MulAdd(values[v], weight, acc[r][v]);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) Store(out + static_cast<size_t>(r) * width + i + 16 * v, acc[r][v]);
  }
}

template <int kRows>
SWIVEL_INLINE void AccumulateFloats(const float* tile, int width, Span span, const WeightRows& rows, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateFloatsAt<kRows, kVectorBlock>(tile, width, span, i, rows, out);
  for (; i < width; i += 16) AccumulateFloatsAt<kRows, 1>(tile, width, span, i, rows, out);
}
