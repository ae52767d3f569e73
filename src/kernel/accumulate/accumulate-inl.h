// Weighted sums of a chunk of 64 values into output rows.
//
// Table codes: exact integer products of signed levels and weights rounded to bytes with one scale a row and chunk. Plain rounding would
// lose every weight below 1/510 of the chunk's largest, and with it the mass of a long tail; QuantizeWeights keeps the mass.

// Byte tile: [16 quads of tokens][width][4 tokens].
template <int kBits, int kHalf, int kBlock>
SWIVEL_INLINE void UnpackValueBlock(const uint8_t* codes, ByteTable table, uint8_t* out, int width) {
  const I32x16 low = LoadRaw(codes + 64 * kBlock);
  const I32x16 high = kBits == 3 ? LoadRaw(codes + 128) : low;
  StoreQuads<kBits, kHalf>(low, high, table, out + static_cast<size_t>(kBlock) * kQuadsPerBlock<kBits> * width * 4, static_cast<size_t>(width) * 4);
}

template <int kBits>
SWIVEL_INLINE void UnpackValueCodes(const uint8_t* group, int width, int chunk, ByteTable table, uint8_t* tile) {
  for (int t = 0; t < 2; ++t) {
    const uint8_t* tile32 = group + (2 * chunk + t) * Bytes32(kBits, width);
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

// Float tile: [64 tokens][width]. Returns a bit for each token that holds a NaN or an infinity (its values become 0).
SWIVEL_INLINE uint64_t UnpackValueFloats(const Codec& codec, const uint8_t* group, int width, int chunk, float* tile) {
  uint64_t poison = 0;
  for (int token = 0; token < kChunk; ++token) {
    float* row = tile + static_cast<size_t>(token) * width;
    if (codec.layout == Layout::kF16 || codec.layout == Layout::kBf16) {
      const uint16_t* half = reinterpret_cast<const uint16_t*>(group) + static_cast<size_t>(chunk * kChunk + token) * width;
      for (int i = 0; i < width; i += 16) Store(row + i, codec.layout == Layout::kF16 ? LoadF16(half + i) : LoadBf16(half + i));
    } else {
      codec.decode_in_frame(group, width, Side::kValue, chunk * kChunk + token, row);
    }
    F32x16 check = Zero();
    for (int i = 0; i < width; i += 16) check = Add(check, Mul(Load(row + i), Zero()));
    if (ReduceAdd(check) == 0.0f) continue;
    poison |= uint64_t{1} << token;
    for (int i = 0; i < width; i += 16) Store(row + i, Zero());
  }
  return poison;
}

// Where the 16 lanes start to round: spread over one unit (bit-reversed, so that neighbours differ), which makes the rounding of equal
// small weights unbiased across lanes. A constant pattern, so that results are reproducible.
alignas(64) inline constexpr float kDither[16] = {-15.f / 32, 1.f / 32,  -7.f / 32, 9.f / 32,  -11.f / 32, 5.f / 32,  -3.f / 32, 13.f / 32,
                                                  -13.f / 32, 3.f / 32,  -5.f / 32, 11.f / 32, -9.f / 32,  7.f / 32,  -1.f / 32, 15.f / 32};

// Weights of a row times the scales of its values as bytes of 0 … kWeightMax; returns what one unit is worth (0 when all are 0). What
// rounding takes from a token is handed to the token 16 further on (error feedback), so the mass of a chunk is kept within a unit or two.
SWIVEL_INLINE float QuantizeWeights(const float* weights, const float* scales, uint8_t* bytes) {
  F32x16 scaled[kChunkVectors];
  F32x16 largest16 = Zero();
  for (int v = 0; v < kChunkVectors; ++v) {
    scaled[v] = Mul(Load(weights + 16 * v), Load(scales + 16 * v));
    largest16 = Max(largest16, scaled[v]);
  }
  const float largest = ReduceMax(largest16);
  // A largest weight so small that its inverse overflows carries no mass that a float sum could show.
  const bool vanishes = largest < std::numeric_limits<float>::min() * 1024;
  const F32x16 to_units = Set(vanishes ? 0.0f : kWeightMax / largest);
  F32x16 carried = Load(kDither);
  for (int v = 0; v < kChunkVectors; ++v) {
    const F32x16 wanted = MulAdd(scaled[v], to_units, carried);
    const F32x16 units = Max(Min(Round(wanted), Set(kWeightMax)), Zero());
    // An exact zero (a masked cell) stays zero: its value may be anything.
    const uint32_t positive = LessBits(Zero(), scaled[v]);
    StoreBytes(bytes + 16 * v, SelectBits(positive, units, Zero()));
    carried = SelectBits(positive, Sub(wanted, units), carried);
  }
  return vanishes ? 0.0f : largest / kWeightMax;
}

SWIVEL_INLINE int32_t WeightWord(const uint8_t* weights, int r, int quad) {
  int32_t word;
  std::memcpy(&word, weights + r * kChunk + 4 * quad, 4);
  return word;
}

SWIVEL_INLINE void AddToRow(float* at, I32x16 sum, float step, float keep) {
  Store(at, MulAdd(ToFloat(sum), Set(step), Mul(Load(at), Set(keep))));
}

// out[r] = out[r] * keep[r] + step[r] * sum_t weight_r,t level_t for kCount vectors of coordinates from `i`.
template <int kRows, int kCount>
SWIVEL_INLINE void AccumulateBytesAt(const uint8_t* tile, int width, int i, const uint8_t* weights, const float* keep, const float* step, float* out) {
  I32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = ZeroI32();
  }
  for (int quad = 0; quad < kChunk / 4; ++quad) {
    I32x16 values[kCount];
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) values[v] = LoadRaw(tile + (static_cast<size_t>(quad) * width + i + 16 * v) * 4);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = WeightWord(weights, r, quad);
      SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = DotWeights(acc[r][v], values[v], word);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) AddToRow(out + static_cast<size_t>(r) * width + i + 16 * v, acc[r][v], step[r], keep[r]);
  }
}

template <int kRows>
SWIVEL_INLINE void AccumulateBytes(const uint8_t* tile, int width, const uint8_t* weights, const float* keep, const float* step, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateBytesAt<kRows, kVectorBlock>(tile, width, i, weights, keep, step, out);
  for (; i < width; i += 16) AccumulateBytesAt<kRows, 1>(tile, width, i, weights, keep, step, out);
}

template <int kBits, int kHalf, int kRows, int kStep = 0>
SWIVEL_INLINE void AccumulateQuads(I32x16 low, I32x16 high, ByteTable table, const uint8_t* weights, int quad, I32x16 (&acc)[kRows]) {
  if constexpr (kStep < kQuadsPerBlock<kBits>) {
    const I32x16 values = LevelsOfQuad<kBits, kHalf, kStep>(low, high, table);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) acc[r] = DotWeights(acc[r], values, WeightWord(weights, r, quad + kStep));
    AccumulateQuads<kBits, kHalf, kRows, kStep + 1>(low, high, table, weights, quad, acc);
  }
}

// 16 coordinates of a tile of 32 tokens, straight from the codes; `quad` counts from the chunk's first token.
template <int kBits, int kRows>
SWIVEL_INLINE void AccumulateTile(const uint8_t* codes, ByteTable table, const uint8_t* weights, int quad, I32x16 (&acc)[kRows]) {
  constexpr int kQuads = kQuadsPerBlock<kBits>;
  const I32x16 high = LoadRaw(codes + (kBits == 3 ? 128 : 0));
  AccumulateQuads<kBits, 0, kRows>(LoadRaw(codes), high, table, weights, quad, acc);
  AccumulateQuads<kBits, 1, kRows>(LoadRaw(codes + 64), high, table, weights, quad + kQuads, acc);
  if constexpr (kBits == 4) {
    AccumulateQuads<4, 0, kRows>(LoadRaw(codes + 128), high, table, weights, quad + 2 * kQuads, acc);
    AccumulateQuads<4, 1, kRows>(LoadRaw(codes + 192), high, table, weights, quad + 3 * kQuads, acc);
  }
}

template <int kBits, int kRows>
SWIVEL_INLINE void AccumulateCodes(const uint8_t* group, int width, int chunk, ByteTable table, const uint8_t* weights, const float* keep,
                                   const float* step, float* out) {
  const uint8_t* tile0 = group + 2 * chunk * Bytes32(kBits, width);
  const uint8_t* tile1 = tile0 + Bytes32(kBits, width);
  for (int i = 0; i < width; i += 16) {
    // Two sets of sums: one alone would wait for the latency of the dot product.
    I32x16 acc0[kRows], acc1[kRows];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) acc0[r] = acc1[r] = ZeroI32();
    AccumulateTile<kBits, kRows>(tile0 + i * 4 * kBits, table, weights, 0, acc0);
    AccumulateTile<kBits, kRows>(tile1 + i * 4 * kBits, table, weights, 8, acc1);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) AddToRow(out + static_cast<size_t>(r) * width + i, AddI32(acc0[r], acc1[r]), step[r], keep[r]);
  }
}

template <int kRows, int kCount>
SWIVEL_INLINE void AccumulateFloatsAt(const float* tile, int width, int i, const float* weights, const float* keep, float* out) {
  F32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = Mul(Load(out + static_cast<size_t>(r) * width + i + 16 * v), Set(keep[r]));
  }
  for (int token = 0; token < kChunk; ++token) {
    F32x16 values[kCount];
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) values[v] = Load(tile + static_cast<size_t>(token) * width + i + 16 * v);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const F32x16 weight = Set(weights[r * kChunk + token]);
      SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = MulAdd(values[v], weight, acc[r][v]);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) Store(out + static_cast<size_t>(r) * width + i + 16 * v, acc[r][v]);
  }
}

template <int kRows>
SWIVEL_INLINE void AccumulateFloats(const float* tile, int width, const float* weights, const float* keep, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateFloatsAt<kRows, kVectorBlock>(tile, width, i, weights, keep, out);
  for (; i < width; i += 16) AccumulateFloatsAt<kRows, 1>(tile, width, i, weights, keep, out);
}
