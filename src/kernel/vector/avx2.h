// The vector vocabulary for AVX2 with FMA and F16C: two ymm registers a vector. See README.md for what each operation means.
// Included only inside the target's region (targets/avx2.cc), hence no include of its own.

inline constexpr int kRowBlock = 4;
inline constexpr int kVectorBlock = 1;  // 4 rows x 2 registers accumulate; the byte dot needs four more
// vpmaddubsw adds two products in 16 bits: 128 * 127 and 255 * 64 twice each just fit.
inline constexpr bool kNarrowLevels = true;
inline constexpr int kValueBias = 0;
inline constexpr int kByteBias = 64;  // it wants one side unsigned: key tables hold level + 64
inline constexpr int kWeightMax = 255;

struct F32x16 { __m256 a, b; };
struct I32x16 { __m256i a, b; };

#define SWIVEL_PAIR_FLOAT(name, op) \
  SWIVEL_INLINE F32x16 name(F32x16 x, F32x16 y) { return {op(x.a, y.a), op(x.b, y.b)}; }
SWIVEL_PAIR_FLOAT(Add, _mm256_add_ps)
SWIVEL_PAIR_FLOAT(Sub, _mm256_sub_ps)
SWIVEL_PAIR_FLOAT(Mul, _mm256_mul_ps)
SWIVEL_PAIR_FLOAT(Div, _mm256_div_ps)
SWIVEL_PAIR_FLOAT(Min, _mm256_min_ps)
SWIVEL_PAIR_FLOAT(Max, _mm256_max_ps)
#undef SWIVEL_PAIR_FLOAT
#define SWIVEL_PAIR_INT(name, op) \
  SWIVEL_INLINE I32x16 name(I32x16 x, I32x16 y) { return {op(x.a, y.a), op(x.b, y.b)}; }
SWIVEL_PAIR_INT(And, _mm256_and_si256)
SWIVEL_PAIR_INT(Or, _mm256_or_si256)
SWIVEL_PAIR_INT(Xor, _mm256_xor_si256)
#undef SWIVEL_PAIR_INT

SWIVEL_INLINE F32x16 Set(float x) { return {_mm256_set1_ps(x), _mm256_set1_ps(x)}; }
SWIVEL_INLINE F32x16 Zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
SWIVEL_INLINE F32x16 Load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
SWIVEL_INLINE void Store(float* p, F32x16 x) {
  _mm256_storeu_ps(p, x.a);
  _mm256_storeu_ps(p + 8, x.b);
}
SWIVEL_INLINE F32x16 MulAdd(F32x16 x, F32x16 y, F32x16 z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
SWIVEL_INLINE F32x16 Abs(F32x16 x) {
  const __m256 sign = _mm256_set1_ps(-0.0f);
  return {_mm256_andnot_ps(sign, x.a), _mm256_andnot_ps(sign, x.b)};
}
SWIVEL_INLINE F32x16 Round(F32x16 x) { return {_mm256_round_ps(x.a, 8), _mm256_round_ps(x.b, 8)}; }
// Exponent arithmetic on the bits: `whole` is within [-126, 127] here.
SWIVEL_INLINE __m256 ScalePow2Half(__m256 x, __m256 whole) {
  return _mm256_mul_ps(x, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(_mm256_cvtps_epi32(whole), _mm256_set1_epi32(127)), 23)));
}
SWIVEL_INLINE F32x16 ScalePow2(F32x16 x, F32x16 whole) { return {ScalePow2Half(x.a, whole.a), ScalePow2Half(x.b, whole.b)}; }
SWIVEL_INLINE float ReduceAdd(F32x16 x) {
  const __m256 eight = _mm256_add_ps(x.a, x.b);
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
SWIVEL_INLINE float ReduceMax(F32x16 x) {
  const __m256 eight = _mm256_max_ps(x.a, x.b);
  const __m128 four = _mm_max_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_max_ss(two, _mm_shuffle_ps(two, two, 1)));
}

template <int s>
SWIVEL_INLINE F32x16 SwapLanes(F32x16 x) {
  if constexpr (s == 1) return {_mm256_permute_ps(x.a, 0xb1), _mm256_permute_ps(x.b, 0xb1)};
  if constexpr (s == 2) return {_mm256_permute_ps(x.a, 0x4e), _mm256_permute_ps(x.b, 0x4e)};
  if constexpr (s == 4) return {_mm256_permute2f128_ps(x.a, x.a, 1), _mm256_permute2f128_ps(x.b, x.b, 1)};
  if constexpr (s == 8) return {x.b, x.a};
}
SWIVEL_INLINE F32x16 PickLanes(F32x16 x, I32x16 index) {
  return {_mm256_permutevar8x32_ps(x.a, index.a), _mm256_permutevar8x32_ps(x.b, index.b)};
}
SWIVEL_INLINE F32x16 LoadQuads(const float* first, const float* second) {
  return {_mm256_broadcast_ps(reinterpret_cast<const __m128*>(first)), _mm256_broadcast_ps(reinterpret_cast<const __m128*>(second))};
}
SWIVEL_INLINE void StoreInterleaved4Half(float* p, __m256 a, __m256 b, __m256 c, __m256 d) {
  const __m256 ab = _mm256_unpacklo_ps(a, b), ab_high = _mm256_unpackhi_ps(a, b);
  const __m256 cd = _mm256_unpacklo_ps(c, d), cd_high = _mm256_unpackhi_ps(c, d);
  const __m256 r0 = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd)));  // lanes 0 and 4 of a, b, c, d
  const __m256 r1 = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(ab), _mm256_castps_pd(cd)));
  const __m256 r2 = _mm256_castpd_ps(_mm256_unpacklo_pd(_mm256_castps_pd(ab_high), _mm256_castps_pd(cd_high)));
  const __m256 r3 = _mm256_castpd_ps(_mm256_unpackhi_pd(_mm256_castps_pd(ab_high), _mm256_castps_pd(cd_high)));
  _mm256_storeu_ps(p, _mm256_permute2f128_ps(r0, r1, 0x20));
  _mm256_storeu_ps(p + 8, _mm256_permute2f128_ps(r2, r3, 0x20));
  _mm256_storeu_ps(p + 16, _mm256_permute2f128_ps(r0, r1, 0x31));
  _mm256_storeu_ps(p + 24, _mm256_permute2f128_ps(r2, r3, 0x31));
}
SWIVEL_INLINE void StoreInterleaved4(float* p, F32x16 x, F32x16 y, F32x16 z, F32x16 w) {
  StoreInterleaved4Half(p, x.a, y.a, z.a, w.a);
  StoreInterleaved4Half(p + 32, x.b, y.b, z.b, w.b);
}
template <int s>
SWIVEL_INLINE F32x16 FlipSignLanes(F32x16 x) {
  const __m256 all = _mm256_set1_ps(-0.0f);
  if constexpr (s == 8) return {x.a, _mm256_xor_ps(x.b, all)};
  const __m256 lanes = s == 1   ? _mm256_setr_ps(0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f, 0.0f, -0.0f)
                       : s == 2 ? _mm256_setr_ps(0.0f, 0.0f, -0.0f, -0.0f, 0.0f, 0.0f, -0.0f, -0.0f)
                                : _mm256_setr_ps(0.0f, 0.0f, 0.0f, 0.0f, -0.0f, -0.0f, -0.0f, -0.0f);
  return {_mm256_xor_ps(x.a, lanes), _mm256_xor_ps(x.b, lanes)};
}

SWIVEL_INLINE __m256 LanesOfBits(uint32_t bits) {
  const __m256i bit = _mm256_setr_epi32(1, 2, 4, 8, 16, 32, 64, 128);
  return _mm256_castsi256_ps(_mm256_cmpeq_epi32(_mm256_and_si256(_mm256_set1_epi32(static_cast<int>(bits)), bit), bit));
}
SWIVEL_INLINE F32x16 SelectBits(uint32_t bits, F32x16 x, F32x16 y) {
  return {_mm256_blendv_ps(y.a, x.a, LanesOfBits(bits)), _mm256_blendv_ps(y.b, x.b, LanesOfBits(bits >> 8))};
}
SWIVEL_INLINE uint32_t LessBits(F32x16 x, F32x16 y) {
  const uint32_t low = static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.a, y.a, _CMP_LT_OQ)));
  return low | static_cast<uint32_t>(_mm256_movemask_ps(_mm256_cmp_ps(x.b, y.b, _CMP_LT_OQ))) << 8;
}
// A bit for each of 64 words that equals `value`.
SWIVEL_INLINE uint64_t EqualBits64(const uint16_t* words, uint16_t value) {
  const __m256i all = _mm256_set1_epi16(static_cast<short>(value));
  uint64_t bits = 0;
  for (int i = 0; i < 2; ++i) {
    const __m256i* p = reinterpret_cast<const __m256i*>(words + 32 * i);
    const __m256i low = _mm256_cmpeq_epi16(_mm256_loadu_si256(p), all);
    const __m256i high = _mm256_cmpeq_epi16(_mm256_loadu_si256(p + 1), all);
    const __m256i packed = _mm256_permute4x64_epi64(_mm256_packs_epi16(low, high), 0xd8);
    bits |= static_cast<uint64_t>(static_cast<uint32_t>(_mm256_movemask_epi8(packed))) << (32 * i);
  }
  return bits;
}
SWIVEL_INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

SWIVEL_INLINE F32x16 LoadF16(const uint16_t* p) {
  const __m128i* half = reinterpret_cast<const __m128i*>(p);
  return {_mm256_cvtph_ps(_mm_loadu_si128(half)), _mm256_cvtph_ps(_mm_loadu_si128(half + 1))};
}
template <int shift>
SWIVEL_INLINE F32x16 WidenU16(const uint16_t* p) {
  const __m128i* half = reinterpret_cast<const __m128i*>(p);
  return {_mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half)), shift)),
          _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(_mm_loadu_si128(half + 1)), shift))};
}
SWIVEL_INLINE F32x16 LoadBf16(const uint16_t* p) { return WidenU16<16>(p); }
SWIVEL_INLINE F32x16 LoadScale(const uint16_t* p) { return WidenU16<15>(p); }

SWIVEL_INLINE I32x16 ZeroI32() { return {_mm256_setzero_si256(), _mm256_setzero_si256()}; }
SWIVEL_INLINE I32x16 SetI32(int32_t x) { return {_mm256_set1_epi32(x), _mm256_set1_epi32(x)}; }
SWIVEL_INLINE I32x16 LoadRaw(const void* p) {
  const __m256i* half = static_cast<const __m256i*>(p);
  return {_mm256_loadu_si256(half), _mm256_loadu_si256(half + 1)};
}
SWIVEL_INLINE void StoreRaw(void* p, I32x16 x) {
  __m256i* half = static_cast<__m256i*>(p);
  _mm256_storeu_si256(half, x.a);
  _mm256_storeu_si256(half + 1, x.b);
}
SWIVEL_INLINE I32x16 LanesUp(I32x16 x) {
  const __m256i low = _mm256_permute2x128_si256(x.a, x.a, 0x08);   // zeros, lanes 0-3
  const __m256i middle = _mm256_permute2x128_si256(x.a, x.b, 0x21);  // lanes 4-11
  return {_mm256_alignr_epi8(x.a, low, 12), _mm256_alignr_epi8(x.b, middle, 12)};
}
SWIVEL_INLINE I32x16 ShiftLeft32(I32x16 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_sll_epi32(x.a, count), _mm256_sll_epi32(x.b, count)};
}
SWIVEL_INLINE I32x16 ShiftRight32(I32x16 x, int n) {
  const __m128i count = _mm_cvtsi32_si128(n);
  return {_mm256_srl_epi32(x.a, count), _mm256_srl_epi32(x.b, count)};
}
SWIVEL_INLINE F32x16 ToFloat(I32x16 x) { return {_mm256_cvtepi32_ps(x.a), _mm256_cvtepi32_ps(x.b)}; }
SWIVEL_INLINE I32x16 CountAtLeast(I32x16 count, F32x16 x, F32x16 threshold) {
  return {_mm256_sub_epi32(count.a, _mm256_castps_si256(_mm256_cmp_ps(x.a, threshold.a, _CMP_GE_OQ))),
          _mm256_sub_epi32(count.b, _mm256_castps_si256(_mm256_cmp_ps(x.b, threshold.b, _CMP_GE_OQ)))};
}
// Eight words in order from eight 32-bit lanes (values fit).
SWIVEL_INLINE __m128i NarrowToWords(__m256i x) { return _mm_packs_epi32(_mm256_castsi256_si128(x), _mm256_extracti128_si256(x, 1)); }
SWIVEL_INLINE void StoreLowBytes(uint8_t* p, I32x16 x) {
  _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm_packus_epi16(NarrowToWords(x.a), NarrowToWords(x.b)));
}
// Values of 128..255 would saturate in a signed pack, so words are masked to their low byte first.
SWIVEL_INLINE void StoreBytes(void* p, F32x16 x) {
  const __m128i low = _mm_set1_epi16(0xff);
  const __m128i a = _mm_and_si128(NarrowToWords(_mm256_cvtps_epi32(x.a)), low);
  const __m128i b = _mm_and_si128(NarrowToWords(_mm256_cvtps_epi32(x.b)), low);
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm_packus_epi16(a, b));
}

struct ByteTable { __m256i v; };
struct FloatTable { __m256 low, high; };
SWIVEL_INLINE FloatTable MakeFloatTable(const float* sixteen) { return {_mm256_loadu_ps(sixteen), _mm256_loadu_ps(sixteen + 8)}; }
SWIVEL_INLINE __m256 LookupFloatsHalf(FloatTable t, __m256i index) {
  const __m256 high = _mm256_castsi256_ps(_mm256_slli_epi32(index, 28));  // bit 3 to the sign bit, which blendv reads
  return _mm256_blendv_ps(_mm256_permutevar8x32_ps(t.low, index), _mm256_permutevar8x32_ps(t.high, index), high);
}
SWIVEL_INLINE F32x16 LookupFloats(FloatTable t, I32x16 index) { return {LookupFloatsHalf(t, index.a), LookupFloatsHalf(t, index.b)}; }
SWIVEL_INLINE ByteTable MakeByteTable(const uint8_t* sixteen) {
  return {_mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen)))};
}
template <int shift>
SWIVEL_INLINE I32x16 FieldDown(I32x16 x) {
  if constexpr (shift == 0) return x;
  if constexpr (shift > 0) return {_mm256_srli_epi16(x.a, shift), _mm256_srli_epi16(x.b, shift)};
  if constexpr (shift < 0) return {_mm256_slli_epi16(x.a, -shift), _mm256_slli_epi16(x.b, -shift)};
}
SWIVEL_INLINE __m256i JoinHalf(__m256i low, __m256i high, __m256i mask) {
  return _mm256_or_si256(_mm256_and_si256(low, mask), _mm256_andnot_si256(mask, high));
}
template <int bits = 2>
SWIVEL_INLINE I32x16 JoinBytes(I32x16 low, I32x16 high) {
  const __m256i mask = _mm256_set1_epi8((1 << bits) - 1);
  return {JoinHalf(low.a, high.a, mask), JoinHalf(low.b, high.b, mask)};
}
template <int bits>
SWIVEL_INLINE I32x16 LookupBytes(ByteTable t, I32x16 index) {
  const __m256i field = _mm256_set1_epi8((1 << bits) - 1);  // vpshufb reads bit 7 as "zero"
  return {_mm256_shuffle_epi8(t.v, _mm256_and_si256(index.a, field)), _mm256_shuffle_epi8(t.v, _mm256_and_si256(index.b, field))};
}
// Parts of 16 entries: bit 4 and up of the index choose between their lookups.
template <int bits>
struct CodeTable { __m256i part[bits > 4 ? 1 << (bits - 4) : 1]; };
template <int bits>
SWIVEL_INLINE CodeTable<bits> MakeCodeTable(const uint8_t* entries) {
  CodeTable<bits> t;
  for (size_t i = 0; i < sizeof(t.part) / sizeof(t.part[0]); ++i) t.part[i] = MakeByteTable(entries + 16 * i).v;
  return t;
}
// Entries of the parts [first, first + 2^(bits - 4)); `low` is the index without bits 4-7.
template <int bits, int first, int all>
SWIVEL_INLINE __m256i LookupParts(const CodeTable<all>& t, __m256i index, __m256i low) {
  if constexpr (bits <= 4) return _mm256_shuffle_epi8(t.part[first], low);
  if constexpr (bits > 4) {
    const __m256i choose = _mm256_slli_epi16(index, 8 - bits);  // the top bit of the index to bit 7, which blendv reads
    return _mm256_blendv_epi8(LookupParts<bits - 1, first>(t, index, low), LookupParts<bits - 1, first + (1 << (bits - 5))>(t, index, low), choose);
  }
}
template <int bits>
SWIVEL_INLINE I32x16 LookupCodes(CodeTable<bits> t, I32x16 index) {
  const __m256i field = _mm256_set1_epi8((1 << (bits < 4 ? bits : 4)) - 1);
  return {LookupParts<bits, 0>(t, index.a, _mm256_and_si256(index.a, field)), LookupParts<bits, 0>(t, index.b, _mm256_and_si256(index.b, field))};
}
SWIVEL_INLINE __m256i DotBytesHalf(__m256i acc, __m256i table_bytes, __m256i q) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(table_bytes, q), _mm256_set1_epi16(1)));
}
SWIVEL_INLINE I32x16 DotBytes(I32x16 acc, I32x16 table_bytes, int32_t q) {
  const __m256i all = _mm256_set1_epi32(q);
  return {DotBytesHalf(acc.a, table_bytes.a, all), DotBytesHalf(acc.b, table_bytes.b, all)};
}
SWIVEL_INLINE __m256i DotWeightsHalf(__m256i acc, __m256i levels, __m256i weights) {
  return _mm256_add_epi32(acc, _mm256_madd_epi16(_mm256_maddubs_epi16(weights, levels), _mm256_set1_epi16(1)));
}
SWIVEL_INLINE I32x16 DotWeights(I32x16 acc, I32x16 levels, int32_t weights) {
  const __m256i all = _mm256_set1_epi32(weights);
  return {DotWeightsHalf(acc.a, levels.a, all), DotWeightsHalf(acc.b, levels.b, all)};
}
