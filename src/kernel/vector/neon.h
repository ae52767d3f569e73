// The vector vocabulary for AArch64 with the dot product (Armv8.2 DotProd): four q registers a vector. See README.md for what each
// operation means. Included only inside the target's region (targets/neon.cc), hence no include of its own.

// A tile of four rows has its sums in 16 of 32 registers. Straight from the codes two tiles are summed at once, 32 registers: some of
// those sums live on the stack, but with three rows or two, heads in groups of four would be unpacked first, which costs more
// instructions; with six rows all of them would live there.
inline constexpr int kRowBlock = 4;
inline constexpr int kVectorBlock = 1;
inline constexpr bool kNarrowLevels = false;
// sdot and udot take two sides of one kind; unsigned by signed (usdot) came with I8MM, which the first cores with sdot lack. Queries and
// levels are both signed; weights of 8 bits are unsigned, so value tables hold level + 128.
inline constexpr int kByteBias = 0;
inline constexpr int kValueBias = 128;
inline constexpr int kWeightMax = 255;

struct F32x16 {
  float32x4_t a, b, c, d;
};
struct I32x16 {
  int32x4_t a, b, c, d;
};

#define SWIVEL_FOUR(type, name, op) \
  SWIVEL_INLINE type name(type x, type y) { return {op(x.a, y.a), op(x.b, y.b), op(x.c, y.c), op(x.d, y.d)}; }
SWIVEL_FOUR(F32x16, Add, vaddq_f32)
SWIVEL_FOUR(F32x16, Sub, vsubq_f32)
SWIVEL_FOUR(F32x16, Mul, vmulq_f32)
SWIVEL_FOUR(F32x16, Div, vdivq_f32)
SWIVEL_FOUR(F32x16, Min, vminq_f32)
SWIVEL_FOUR(F32x16, Max, vmaxq_f32)
SWIVEL_FOUR(I32x16, And, vandq_s32)
SWIVEL_FOUR(I32x16, Or, vorrq_s32)
SWIVEL_FOUR(I32x16, Xor, veorq_s32)
#undef SWIVEL_FOUR

SWIVEL_INLINE F32x16 Set(float x) {
  const float32x4_t all = vdupq_n_f32(x);
  return {all, all, all, all};
}
SWIVEL_INLINE F32x16 Zero() { return Set(0.0f); }
SWIVEL_INLINE F32x16 Load(const float* p) { return {vld1q_f32(p), vld1q_f32(p + 4), vld1q_f32(p + 8), vld1q_f32(p + 12)}; }
SWIVEL_INLINE void Store(float* p, F32x16 x) {
  vst1q_f32(p, x.a);
  vst1q_f32(p + 4, x.b);
  vst1q_f32(p + 8, x.c);
  vst1q_f32(p + 12, x.d);
}
SWIVEL_INLINE F32x16 MulAdd(F32x16 x, F32x16 y, F32x16 z) {
  return {vfmaq_f32(z.a, x.a, y.a), vfmaq_f32(z.b, x.b, y.b), vfmaq_f32(z.c, x.c, y.c), vfmaq_f32(z.d, x.d, y.d)};
}
SWIVEL_INLINE F32x16 Abs(F32x16 x) { return {vabsq_f32(x.a), vabsq_f32(x.b), vabsq_f32(x.c), vabsq_f32(x.d)}; }
SWIVEL_INLINE F32x16 Round(F32x16 x) { return {vrndnq_f32(x.a), vrndnq_f32(x.b), vrndnq_f32(x.c), vrndnq_f32(x.d)}; }
// Exponent arithmetic on the bits: `whole` is within [-126, 127] here.
SWIVEL_INLINE float32x4_t ScalePow2Quarter(float32x4_t x, float32x4_t whole) {
  return vmulq_f32(x, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(vcvtnq_s32_f32(whole), vdupq_n_s32(127)), 23)));
}
SWIVEL_INLINE F32x16 ScalePow2(F32x16 x, F32x16 whole) {
  return {ScalePow2Quarter(x.a, whole.a), ScalePow2Quarter(x.b, whole.b), ScalePow2Quarter(x.c, whole.c), ScalePow2Quarter(x.d, whole.d)};
}
SWIVEL_INLINE float ReduceAdd(F32x16 x) {
  const float32x4_t four = vaddq_f32(vaddq_f32(x.a, x.c), vaddq_f32(x.b, x.d));
  return vpadds_f32(vadd_f32(vget_low_f32(four), vget_high_f32(four)));
}
SWIVEL_INLINE float ReduceMax(F32x16 x) { return vmaxvq_f32(vmaxq_f32(vmaxq_f32(x.a, x.c), vmaxq_f32(x.b, x.d))); }

template <int s>
SWIVEL_INLINE F32x16 SwapLanes(F32x16 x) {
  if constexpr (s == 1) return {vrev64q_f32(x.a), vrev64q_f32(x.b), vrev64q_f32(x.c), vrev64q_f32(x.d)};
  if constexpr (s == 2) return {vextq_f32(x.a, x.a, 2), vextq_f32(x.b, x.b, 2), vextq_f32(x.c, x.c, 2), vextq_f32(x.d, x.d, 2)};
  if constexpr (s == 4) return {x.b, x.a, x.d, x.c};
  if constexpr (s == 8) return {x.c, x.d, x.a, x.b};
}
// A half of 8 lanes is the table of one tbl of two registers.
SWIVEL_INLINE float32x4_t PickQuarter(float32x4_t low, float32x4_t high, int32x4_t index) {
  const uint32x4_t lane = vandq_u32(vreinterpretq_u32_s32(index), vdupq_n_u32(7));
  const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100u), lane, vdupq_n_u32(0x04040404u));
  const uint8x16x2_t table = {{vreinterpretq_u8_f32(low), vreinterpretq_u8_f32(high)}};
  return vreinterpretq_f32_u8(vqtbl2q_u8(table, vreinterpretq_u8_u32(bytes)));
}
SWIVEL_INLINE F32x16 PickLanes(F32x16 x, I32x16 index) {
  return {PickQuarter(x.a, x.b, index.a), PickQuarter(x.a, x.b, index.b), PickQuarter(x.c, x.d, index.c), PickQuarter(x.c, x.d, index.d)};
}
SWIVEL_INLINE F32x16 LoadQuads(const float* first, const float* second) {
  const float32x4_t low = vld1q_f32(first), high = vld1q_f32(second);
  return {low, low, high, high};
}
SWIVEL_INLINE void StoreInterleaved4(float* p, F32x16 x, F32x16 y, F32x16 z, F32x16 w) {
  vst4q_f32(p, {{x.a, y.a, z.a, w.a}});
  vst4q_f32(p + 16, {{x.b, y.b, z.b, w.b}});
  vst4q_f32(p + 32, {{x.c, y.c, z.c, w.c}});
  vst4q_f32(p + 48, {{x.d, y.d, z.d, w.d}});
}
SWIVEL_INLINE float32x4_t FlipSigns(float32x4_t x, uint32x4_t signs) {
  return vreinterpretq_f32_u32(veorq_u32(vreinterpretq_u32_f32(x), signs));
}
template <int s>
SWIVEL_INLINE F32x16 FlipSignLanes(F32x16 x) {
  if constexpr (s == 8) return {x.a, x.b, vnegq_f32(x.c), vnegq_f32(x.d)};
  if constexpr (s == 4) return {x.a, vnegq_f32(x.b), x.c, vnegq_f32(x.d)};
  constexpr uint32_t minus = 0x80000000u;
  const uint32x4_t signs = s == 1 ? uint32x4_t{0, minus, 0, minus} : uint32x4_t{0, 0, minus, minus};
  return {FlipSigns(x.a, signs), FlipSigns(x.b, signs), FlipSigns(x.c, signs), FlipSigns(x.d, signs)};
}

SWIVEL_INLINE F32x16 SelectBits(uint32_t bits, F32x16 x, F32x16 y) {
  const uint32x4_t all = vdupq_n_u32(bits);
  return {vbslq_f32(vtstq_u32(all, uint32x4_t{1, 2, 4, 8}), x.a, y.a), vbslq_f32(vtstq_u32(all, uint32x4_t{16, 32, 64, 128}), x.b, y.b),
          vbslq_f32(vtstq_u32(all, uint32x4_t{256, 512, 1024, 2048}), x.c, y.c),
          vbslq_f32(vtstq_u32(all, uint32x4_t{4096, 8192, 16384, 32768}), x.d, y.d)};
}
// There is no movemask: each byte keeps the bit of its place among eight, and pairwise sums gather them.
SWIVEL_INLINE uint8x16_t BitOfByte(uint8x16_t mask) {
  return vandq_u8(mask, uint8x16_t{1, 2, 4, 8, 16, 32, 64, 128, 1, 2, 4, 8, 16, 32, 64, 128});
}
SWIVEL_INLINE uint32_t LessBits(F32x16 x, F32x16 y) {
  const uint16x8_t low = vuzp1q_u16(vreinterpretq_u16_u32(vcltq_f32(x.a, y.a)), vreinterpretq_u16_u32(vcltq_f32(x.b, y.b)));
  const uint16x8_t high = vuzp1q_u16(vreinterpretq_u16_u32(vcltq_f32(x.c, y.c)), vreinterpretq_u16_u32(vcltq_f32(x.d, y.d)));
  uint8x16_t bits = BitOfByte(vuzp1q_u8(vreinterpretq_u8_u16(low), vreinterpretq_u8_u16(high)));
  bits = vpaddq_u8(bits, bits);
  bits = vpaddq_u8(bits, bits);
  bits = vpaddq_u8(bits, bits);
  return vgetq_lane_u16(vreinterpretq_u16_u8(bits), 0);
}
SWIVEL_INLINE uint8x16_t EqualBits16(const uint16_t* words, uint16x8_t value) {
  const uint8x16_t low = vreinterpretq_u8_u16(vceqq_u16(vld1q_u16(words), value));
  const uint8x16_t high = vreinterpretq_u8_u16(vceqq_u16(vld1q_u16(words + 8), value));
  return BitOfByte(vuzp1q_u8(low, high));
}
// A bit for each of 64 words that equals `value`.
SWIVEL_INLINE uint64_t EqualBits64(const uint16_t* words, uint16_t value) {
  const uint16x8_t all = vdupq_n_u16(value);
  const uint8x16_t low = vpaddq_u8(EqualBits16(words, all), EqualBits16(words + 16, all));
  const uint8x16_t high = vpaddq_u8(EqualBits16(words + 32, all), EqualBits16(words + 48, all));
  const uint8x16_t sums = vpaddq_u8(low, high);
  return vgetq_lane_u64(vreinterpretq_u64_u8(vpaddq_u8(sums, sums)), 0);
}
SWIVEL_INLINE void Prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

// fcvtl is in every AArch64 processor: half arithmetic (FP16) is not needed.
SWIVEL_INLINE F32x16 LoadF16(const uint16_t* p) {
  const float16x8_t low = vreinterpretq_f16_u16(vld1q_u16(p));
  const float16x8_t high = vreinterpretq_f16_u16(vld1q_u16(p + 8));
  return {vcvt_f32_f16(vget_low_f16(low)), vcvt_high_f32_f16(low), vcvt_f32_f16(vget_low_f16(high)), vcvt_high_f32_f16(high)};
}
template <int shift>
SWIVEL_INLINE F32x16 WidenU16(const uint16_t* p) {
  const uint16x8_t low = vld1q_u16(p);
  const uint16x8_t high = vld1q_u16(p + 8);
  return {vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(low), shift)), vreinterpretq_f32_u32(vshll_high_n_u16(low, shift)),
          vreinterpretq_f32_u32(vshll_n_u16(vget_low_u16(high), shift)), vreinterpretq_f32_u32(vshll_high_n_u16(high, shift))};
}
SWIVEL_INLINE F32x16 LoadScale(const uint16_t* p) { return WidenU16<15>(p); }
// A shift by 16 is outside vshll's range; zeros below are the same.
SWIVEL_INLINE F32x16 LoadBf16(const uint16_t* p) {
  const uint16x8_t zero = vdupq_n_u16(0);
  const uint16x8_t low = vld1q_u16(p);
  const uint16x8_t high = vld1q_u16(p + 8);
  return {vreinterpretq_f32_u16(vzip1q_u16(zero, low)), vreinterpretq_f32_u16(vzip2q_u16(zero, low)),
          vreinterpretq_f32_u16(vzip1q_u16(zero, high)), vreinterpretq_f32_u16(vzip2q_u16(zero, high))};
}

SWIVEL_INLINE I32x16 SetI32(int32_t x) {
  const int32x4_t all = vdupq_n_s32(x);
  return {all, all, all, all};
}
SWIVEL_INLINE I32x16 ZeroI32() { return SetI32(0); }
// Bytes, so that memory needs no alignment.
SWIVEL_INLINE int32x4_t LoadRawQuarter(const void* p, int i) {
  return vreinterpretq_s32_u8(vld1q_u8(static_cast<const uint8_t*>(p) + 16 * i));
}
SWIVEL_INLINE void StoreRawQuarter(void* p, int i, int32x4_t x) { vst1q_u8(static_cast<uint8_t*>(p) + 16 * i, vreinterpretq_u8_s32(x)); }
SWIVEL_INLINE I32x16 LoadRaw(const void* p) {
  return {LoadRawQuarter(p, 0), LoadRawQuarter(p, 1), LoadRawQuarter(p, 2), LoadRawQuarter(p, 3)};
}
SWIVEL_INLINE void StoreRaw(void* p, I32x16 x) {
  StoreRawQuarter(p, 0, x.a);
  StoreRawQuarter(p, 1, x.b);
  StoreRawQuarter(p, 2, x.c);
  StoreRawQuarter(p, 3, x.d);
}
SWIVEL_INLINE I32x16 LanesUp(I32x16 x) {
  return {vextq_s32(vdupq_n_s32(0), x.a, 3), vextq_s32(x.a, x.b, 3), vextq_s32(x.b, x.c, 3), vextq_s32(x.c, x.d, 3)};
}
SWIVEL_INLINE I32x16 ShiftLeft32(I32x16 x, int n) {
  const int32x4_t count = vdupq_n_s32(n);
  return {vshlq_s32(x.a, count), vshlq_s32(x.b, count), vshlq_s32(x.c, count), vshlq_s32(x.d, count)};
}
// ushl shifts right by negative counts.
SWIVEL_INLINE int32x4_t ShiftRightQuarter(int32x4_t x, int32x4_t minus_n) {
  return vreinterpretq_s32_u32(vshlq_u32(vreinterpretq_u32_s32(x), minus_n));
}
SWIVEL_INLINE I32x16 ShiftRight32(I32x16 x, int n) {
  const int32x4_t count = vdupq_n_s32(-n);
  return {ShiftRightQuarter(x.a, count), ShiftRightQuarter(x.b, count), ShiftRightQuarter(x.c, count), ShiftRightQuarter(x.d, count)};
}
SWIVEL_INLINE F32x16 ToFloat(I32x16 x) { return {vcvtq_f32_s32(x.a), vcvtq_f32_s32(x.b), vcvtq_f32_s32(x.c), vcvtq_f32_s32(x.d)}; }
// A comparison gives -1 where it holds.
SWIVEL_INLINE int32x4_t CountQuarter(int32x4_t count, float32x4_t x, float32x4_t threshold) {
  return vsubq_s32(count, vreinterpretq_s32_u32(vcgeq_f32(x, threshold)));
}
SWIVEL_INLINE I32x16 CountAtLeast(I32x16 count, F32x16 x, F32x16 threshold) {
  return {CountQuarter(count.a, x.a, threshold.a), CountQuarter(count.b, x.b, threshold.b), CountQuarter(count.c, x.c, threshold.c),
          CountQuarter(count.d, x.d, threshold.d)};
}
// Keeps the low byte of each lane: narrowing by uzp1 takes bits as they are, nothing saturates.
SWIVEL_INLINE void StoreLowBytes(uint8_t* p, I32x16 x) {
  const int16x8_t low = vuzp1q_s16(vreinterpretq_s16_s32(x.a), vreinterpretq_s16_s32(x.b));
  const int16x8_t high = vuzp1q_s16(vreinterpretq_s16_s32(x.c), vreinterpretq_s16_s32(x.d));
  vst1q_u8(p, vuzp1q_u8(vreinterpretq_u8_s16(low), vreinterpretq_u8_s16(high)));
}
SWIVEL_INLINE void StoreBytes(void* p, F32x16 x) {
  StoreLowBytes(static_cast<uint8_t*>(p), {vcvtnq_s32_f32(x.a), vcvtnq_s32_f32(x.b), vcvtnq_s32_f32(x.c), vcvtnq_s32_f32(x.d)});
}

struct FloatTable {
  uint8x16x4_t v;
};
SWIVEL_INLINE FloatTable MakeFloatTable(const float* sixteen) {
  const auto bytes = [sixteen](int i) { return vreinterpretq_u8_f32(vld1q_f32(sixteen + 4 * i)); };
  return {{{bytes(0), bytes(1), bytes(2), bytes(3)}}};
}
// The 64 bytes of the table fit one tbl of four registers: byte j of value i is byte 4i + j.
SWIVEL_INLINE float32x4_t LookupFloatsQuarter(FloatTable t, int32x4_t index) {
  const uint32x4_t value = vandq_u32(vreinterpretq_u32_s32(index), vdupq_n_u32(15));
  const uint32x4_t bytes = vmlaq_u32(vdupq_n_u32(0x03020100u), value, vdupq_n_u32(0x04040404u));
  return vreinterpretq_f32_u8(vqtbl4q_u8(t.v, vreinterpretq_u8_u32(bytes)));
}
SWIVEL_INLINE F32x16 LookupFloats(FloatTable t, I32x16 index) {
  return {LookupFloatsQuarter(t, index.a), LookupFloatsQuarter(t, index.b), LookupFloatsQuarter(t, index.c),
          LookupFloatsQuarter(t, index.d)};
}

struct ByteTable {
  uint8x16_t v;
};
SWIVEL_INLINE ByteTable MakeByteTable(const uint8_t* sixteen) { return {vld1q_u8(sixteen)}; }
// What FieldDown leaves when it shifts right: bytes of which only the low kLeft bits can be set. LookupBytes needs no mask for some.
template <int kLeft>
struct SmallBytes : I32x16 {};
template <int shift>
SWIVEL_INLINE uint8x16_t FieldDownQuarter(int32x4_t x) {
  if constexpr (shift > 0) return vshrq_n_u8(vreinterpretq_u8_s32(x), shift);
  if constexpr (shift < 0) return vshlq_n_u8(vreinterpretq_u8_s32(x), -shift);
}
// Bytes can be shifted here, so nothing comes from the neighbour.
template <int shift>
SWIVEL_INLINE auto FieldDown(I32x16 x) {
  if constexpr (shift == 0) {
    return x;
  } else {
    const I32x16 shifted = {vreinterpretq_s32_u8(FieldDownQuarter<shift>(x.a)), vreinterpretq_s32_u8(FieldDownQuarter<shift>(x.b)),
                            vreinterpretq_s32_u8(FieldDownQuarter<shift>(x.c)), vreinterpretq_s32_u8(FieldDownQuarter<shift>(x.d))};
    if constexpr (shift > 0) return SmallBytes<8 - shift>{shifted};
    if constexpr (shift < 0) return shifted;
  }
}
template <int bits = 2>
SWIVEL_INLINE I32x16 JoinBytes(I32x16 low, I32x16 high) {
  const uint32x4_t mask = vreinterpretq_u32_u8(vdupq_n_u8((1 << bits) - 1));
  return {vbslq_s32(mask, low.a, high.a), vbslq_s32(mask, low.b, high.b), vbslq_s32(mask, low.c, high.c), vbslq_s32(mask, low.d, high.d)};
}
SWIVEL_INLINE int32x4_t LookupBytesQuarter(ByteTable t, int32x4_t index) {
  return vreinterpretq_s32_u8(vqtbl1q_u8(t.v, vreinterpretq_u8_s32(index)));
}
// tbl gives 0 for an index above 15; tables of fewer entries are repeated, so any index of four bits is right.
template <int bits>
SWIVEL_INLINE I32x16 LookupBytes(ByteTable t, I32x16 index) {
  const I32x16 masked = And(index, SetI32(0x0f0f0f0f));
  return {LookupBytesQuarter(t, masked.a), LookupBytesQuarter(t, masked.b), LookupBytesQuarter(t, masked.c),
          LookupBytesQuarter(t, masked.d)};
}
template <int bits, int kLeft>
SWIVEL_INLINE I32x16 LookupBytes(ByteTable t, SmallBytes<kLeft> index) {
  if constexpr (kLeft > 4) return LookupBytes<bits>(t, static_cast<I32x16>(index));
  return {LookupBytesQuarter(t, index.a), LookupBytesQuarter(t, index.b), LookupBytesQuarter(t, index.c), LookupBytesQuarter(t, index.d)};
}
// Tables of 32 and 64 entries are one tbl, 128 entries two: tbx leaves what the first found where its own index is out of range.
template <int bits>
struct CodeTable {
  uint8x16_t part[bits > 4 ? 1 << (bits - 4) : 1];
};
template <int bits>
SWIVEL_INLINE CodeTable<bits> MakeCodeTable(const uint8_t* entries) {
  CodeTable<bits> t;
  for (size_t i = 0; i < sizeof(t.part) / sizeof(t.part[0]); ++i) t.part[i] = vld1q_u8(entries + 16 * i);
  return t;
}
template <int bits>
SWIVEL_INLINE int32x4_t LookupCodesQuarter(const CodeTable<bits>& t, int32x4_t codes) {
  const uint8x16_t index = vandq_u8(vreinterpretq_u8_s32(codes), vdupq_n_u8((1 << bits) - 1));
  uint8x16_t found;
  if constexpr (bits <= 4) found = vqtbl1q_u8(t.part[0], index);
  if constexpr (bits == 5) found = vqtbl2q_u8({{t.part[0], t.part[1]}}, index);
  if constexpr (bits >= 6) found = vqtbl4q_u8({{t.part[0], t.part[1], t.part[2], t.part[3]}}, index);
  if constexpr (bits == 7) {
    found = vqtbx4q_u8(found, {{t.part[4], t.part[5], t.part[6], t.part[7]}}, vsubq_u8(index, vdupq_n_u8(64)));
  }
  return vreinterpretq_s32_u8(found);
}
template <int bits>
SWIVEL_INLINE I32x16 LookupCodes(CodeTable<bits> t, I32x16 index) {
  return {LookupCodesQuarter<bits>(t, index.a), LookupCodesQuarter<bits>(t, index.b), LookupCodesQuarter<bits>(t, index.c),
          LookupCodesQuarter<bits>(t, index.d)};
}
// The dot product by an element: four factors in one lane serve all sixteen groups of levels, no broadcast.
SWIVEL_INLINE int32x4_t DotQuarter(int32x4_t acc, int32x4_t levels, int8x8_t factors) {
  return vdotq_lane_s32(acc, vreinterpretq_s8_s32(levels), factors, 0);
}
SWIVEL_INLINE I32x16 DotBytes(I32x16 acc, I32x16 levels, int32_t q) {
  const int8x8_t factors = vcreate_s8(static_cast<uint32_t>(q));
  return {DotQuarter(acc.a, levels.a, factors), DotQuarter(acc.b, levels.b, factors), DotQuarter(acc.c, levels.c, factors),
          DotQuarter(acc.d, levels.d, factors)};
}
// `levels` + kValueBias by weights, both unsigned.
SWIVEL_INLINE int32x4_t DotUnsignedQuarter(int32x4_t acc, int32x4_t levels, uint8x8_t weights) {
  return vreinterpretq_s32_u32(vdotq_lane_u32(vreinterpretq_u32_s32(acc), vreinterpretq_u8_s32(levels), weights, 0));
}
SWIVEL_INLINE I32x16 DotWeights(I32x16 acc, I32x16 levels, int32_t weights) {
  const uint8x8_t factors = vcreate_u8(static_cast<uint32_t>(weights));
  return {DotUnsignedQuarter(acc.a, levels.a, factors), DotUnsignedQuarter(acc.b, levels.b, factors), DotUnsignedQuarter(acc.c, levels.c, factors),
          DotUnsignedQuarter(acc.d, levels.d, factors)};
}
