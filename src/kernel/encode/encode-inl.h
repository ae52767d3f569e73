// Encoding of one row of table codes (Layout::kPlanes, nearest level); bytes equal the scalar codec's on every target. Trellis codes:
// kernel/trellis/encode-inl.h. Everything else uses the scalar codec itself: baselines, and codecs with a search of their own.

// Packs the codes of 16 coordinates (one a lane) of one key into its four lanes' bytes; see codec/planes.h.
template <int kBits>
SWIVEL_INLINE void PackKeyCodes(I32x16 codes, int width, int token, int coordinate, uint8_t* group) {
  uint8_t bytes[16];
  StoreLowBytes(bytes, codes);
  uint32_t quad[4];  // coordinates 4s … 4s + 3, one a byte
  std::memcpy(quad, bytes, 16);
  uint8_t* tile = group + token / 32 * Bytes32(kBits, width);
  const int lane = 4 * (token % 16);
  const int second = token / 16 % 2;
  if constexpr (kBits == 4) {
    uint8_t* block = tile + second * 8 * width + coordinate / 8 * 64 + lane;
    const uint32_t low = quad[0] | quad[1] << 4;
    const uint32_t high = quad[2] | quad[3] << 4;
    std::memcpy(block, &low, 4);
    std::memcpy(block + 64, &high, 4);
  } else {
    const uint32_t two = 0x03030303u;
    const uint32_t low = (quad[0] & two) | (quad[1] & two) << 2 | (quad[2] & two) << 4 | (quad[3] & two) << 6;
    std::memcpy(tile + second * 4 * width + coordinate / 16 * 64 + lane, &low, 4);
    if constexpr (kBits == 3) {
      const uint32_t one = 0x01010101u;
      const uint32_t bits = (quad[0] >> 2 & one) | (quad[1] >> 2 & one) << 1 | (quad[2] >> 2 & one) << 2 | (quad[3] >> 2 & one) << 3;
      uint8_t* block = tile + 8 * width + coordinate / 16 * 64 + lane;
      uint32_t both;  // the other tile of the pair owns the other nibble
      std::memcpy(&both, block, 4);
      both = (both & ~(0x0f0f0f0fu << (4 * second))) | bits << (4 * second);
      std::memcpy(block, &both, 4);
    }
  }
}

SWIVEL_INLINE void PutValueField(uint8_t* block, int shift, int mask, I32x16 field) {
  const I32x16 keep = SetI32(static_cast<int32_t>(~(static_cast<uint32_t>(mask) << shift)));
  StoreRaw(block, Or(And(LoadRaw(block), keep), ShiftLeft32(field, shift)));
}

// Packs the codes of 16 coordinates of one value: a lane a coordinate, so each field is a masked store.
template <int kBits>
SWIVEL_INLINE void PackValueCodes(I32x16 codes, int width, int token, int coordinate, uint8_t* group) {
  constexpr int kField = kBits == 4 ? 4 : 2;
  constexpr int kTokens = 32 / kField;  // tokens a block
  constexpr int kMask = (1 << kField) - 1;
  uint8_t* tile = group + token / 32 * Bytes32(kBits, width) + coordinate / 16 * 64 * kBits;
  const int byte_shift = token % 4 * 8;
  PutValueField(tile + token % 32 / kTokens * 64, byte_shift + token % kTokens / 4 * kField, kMask, kBits == 3 ? And(codes, SetI32(kMask)) : codes);
  if constexpr (kBits == 3) PutValueField(tile + 128, byte_shift + token % 32 / 4, 1, ShiftRight32(codes, 2));
}

template <int kBits>
SWIVEL_INLINE void PackCodes(I32x16 codes, int width, Side side, int token, int coordinate, uint8_t* group) {
  if (side == Side::kKey) {
    PackKeyCodes<kBits>(codes, width, token, coordinate, group);
  } else {
    PackValueCodes<kBits>(codes, width, token, coordinate, group);
  }
}

// LoadRow of codec/turbo.h, and the squared norm of what it gives.
struct VectorRow {
  bool is_flat;
  uint16_t flat_scale;
  int exponent;
  float norm2;
};
SWIVEL_INLINE VectorRow LoadVectorRow(Frame frame, const float* row, int width, float* y) {
  F32x16 largest16 = Zero();
  F32x16 not_finite16 = Zero();  // 0 * x is 0 or NaN
  for (int i = 0; i < width; i += 16) {
    const F32x16 x = Load(row + i);
    largest16 = Max(largest16, Abs(x));
    not_finite16 = Add(not_finite16, Mul(x, Zero()));
  }
  const float largest = ReduceMax(largest16);
  const bool finite = ReduceAdd(not_finite16) == 0.0f;
  if (!finite || largest == 0.0f) return {true, finite ? uint16_t{0} : kScaleNan, 0, 0.0f};
  const int exponent = RowExponent(largest);
  const F32x16 down = Set(PowerOfTwo(-exponent));
  for (int i = 0; i < width; i += 16) Store(y + i, Mul(Load(row + i), down));
  RotateRow(frame, y, width);
  F32x16 norm16 = Zero();
  for (int i = 0; i < width; i += 16) norm16 = Add(norm16, Mul(Load(y + i), Load(y + i)));
  return {false, 0, exponent, ReduceAdd(norm16)};
}

template <int kBits>
SWIVEL_INLINE void EncodeTableRow(const Codec& codec, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  const float* levels = codec.levels;
  alignas(64) float y[kMaxHeadWidth];
  const VectorRow loaded = LoadVectorRow(codec.frame(side), row, width, y);
  uint8_t* scale_at = group + ScalesOffset(kBits, width) + 2 * token;
  if (loaded.is_flat) {
    for (int i = 0; i < width; i += 16) PackCodes<kBits>(SetI32(1 << (kBits - 1)), width, side, token, i, group);
    std::memcpy(scale_at, &loaded.flat_scale, 2);
    return;
  }
  const F32x16 to_unit = Set(std::sqrt(static_cast<float>(width) / loaded.norm2));
  alignas(64) float sixteen[16] = {};
  std::memcpy(sixteen, levels, sizeof(float) << kBits);
  const FloatTable table = MakeFloatTable(sixteen);
  F32x16 code_norm16 = Zero();
  F32x16 product16 = Zero();
  for (int i = 0; i < width; i += 16) {
    const F32x16 yi = Load(y + i);
    const F32x16 t = Mul(yi, to_unit);
    I32x16 codes = ZeroI32();
    for (int j = 0; j + 1 < (1 << kBits); ++j) codes = CountAtLeast(codes, t, Set(Threshold(levels[j], levels[j + 1])));
    PackCodes<kBits>(codes, width, side, token, i, group);
    const F32x16 c = LookupFloats(table, codes);
    code_norm16 = Add(code_norm16, Mul(c, c));
    product16 = Add(product16, Mul(c, yi));
  }
  const uint16_t scale = RowScale(mode, {loaded.norm2, ReduceAdd(code_norm16), ReduceAdd(product16)}, loaded.exponent);
  std::memcpy(scale_at, &scale, 2);
}
