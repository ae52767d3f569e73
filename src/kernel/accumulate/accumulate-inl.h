// Weighted sums of a chunk of 64 values into output rows.
//
// Table codes become 12-bit words (level * 2047 / largest level), weights 13-bit words with one scale a row and chunk; 8-bit weights
// would lose every weight below 1/510 of the chunk's largest. Sums of 64 products stay below 2^31: 64 * 2047 * 8191 = 1.07e9.

// Word tile: [32 pairs of tokens][width][2 tokens].
template <int kBits, int kField>
SWIVEL_INLINE void UnpackValueField(I32x16 low, I32x16 high, WordTable table, int16_t* pair0, int width) {
  I32x16 index;
  if constexpr (kBits == 4) index = FieldDown<4 * (kField % 4)>(low);
  if constexpr (kBits == 2) index = FieldDown<2 * (kField % 8)>(low);
  if constexpr (kBits == 3) index = JoinWords(FieldDown<2 * (kField % 8)>(low), FieldDown<kField - 2>(high));
  StoreRaw(pair0 + static_cast<size_t>(kField) * width * 2, LookupWords<kBits>(table, index));
}

template <int kBits, int kField>
SWIVEL_INLINE void UnpackValueFields(const uint8_t* codes, I32x16 high, WordTable table, int16_t* pair0, int width) {
  if constexpr (kField < 16) {
    constexpr int kFields = kBits == 4 ? 4 : 8;  // pairs of tokens a block of 64 bytes holds
    UnpackValueField<kBits, kField>(LoadRaw(codes + kField / kFields * 64), high, table, pair0, width);
    UnpackValueFields<kBits, kField + 1>(codes, high, table, pair0, width);
  }
}

template <int kBits>
SWIVEL_INLINE void UnpackValueCodes(const uint8_t* group, int width, int chunk, WordTable table, int16_t* tile) {
  for (int t = 0; t < 2; ++t) {
    const uint8_t* tile32 = group + (2 * chunk + t) * Bytes32(kBits, width);
    for (int i = 0; i < width; i += 16) {
      const uint8_t* codes = tile32 + i / 16 * 64 * kBits;
      const I32x16 high = LoadRaw(codes + (kBits == 3 ? 128 : 0));
      UnpackValueFields<kBits, 0>(codes, high, table, tile + (static_cast<size_t>(16 * t) * width + i) * 2, width);
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

// Weights of a row as 13-bit words; returns what one unit is worth (0 when every weight is 0).
SWIVEL_INLINE float QuantizeWeights(const float* weights, const float* scales, int16_t* words) {
  F32x16 scaled[kChunkVectors];
  F32x16 largest16 = Zero();
  for (int v = 0; v < kChunkVectors; ++v) {
    scaled[v] = Mul(Load(weights + 16 * v), Load(scales + 16 * v));
    largest16 = Max(largest16, scaled[v]);
  }
  const float largest = ReduceMax(largest16);
  const F32x16 to_words = Set(largest > 0.0f ? 8191.0f / largest : 0.0f);
  for (int v = 0; v < kChunkVectors; ++v) StoreI16(words + 16 * v, Mul(scaled[v], to_words));
  return largest / 8191.0f;
}

// out[r] = out[r] * keep[r] + step[r] * sum_t words[r][t] * level_t for kCount vectors of coordinates from `i`.
template <int kRows, int kCount>
SWIVEL_INLINE void AccumulateWordsAt(const int16_t* tile, int width, int i, const int16_t* words, const float* keep, const float* step, float* out) {
  I32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = ZeroI32();
  }
  for (int pair = 0; pair < kChunk / 2; ++pair) {
    I32x16 values[kCount];
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) values[v] = LoadRaw(tile + (static_cast<size_t>(pair) * width + i + 16 * v) * 2);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      int32_t word;
      std::memcpy(&word, words + r * kChunk + 2 * pair, 4);
      SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) acc[r][v] = DotWords(acc[r][v], values[v], word);
    }
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) {
      float* at = out + static_cast<size_t>(r) * width + i + 16 * v;
      Store(at, MulAdd(ToFloat(acc[r][v]), Set(step[r]), Mul(Load(at), Set(keep[r]))));
    }
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
SWIVEL_INLINE void AccumulateWords(const int16_t* tile, int width, const int16_t* words, const float* keep, const float* step, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateWordsAt<kRows, kVectorBlock>(tile, width, i, words, keep, step, out);
  for (; i < width; i += 16) AccumulateWordsAt<kRows, 1>(tile, width, i, words, keep, step, out);
}

template <int kRows>
SWIVEL_INLINE void AccumulateFloats(const float* tile, int width, const float* weights, const float* keep, float* out) {
  int i = 0;
  for (; i + 16 * kVectorBlock <= width; i += 16 * kVectorBlock) AccumulateFloatsAt<kRows, kVectorBlock>(tile, width, i, weights, keep, out);
  for (; i < width; i += 16) AccumulateFloatsAt<kRows, 1>(tile, width, i, weights, keep, out);
}
