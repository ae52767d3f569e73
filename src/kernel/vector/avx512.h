// The vector vocabulary for AVX-512 with BW, DQ, VL, VNNI and VBMI. See README.md for what each operation means.
// Included only inside the target's region (targets/avx512.cc), hence no include of its own.

inline constexpr int kRowBlock = 6;    // query rows a score or accumulate tile holds in registers
inline constexpr int kVectorBlock = 4; // vectors of 16 tokens or coordinates beside them: 24 of 32 registers accumulate
inline constexpr int kByteBias = 128;  // vpdpbusd wants one side unsigned: key tables hold level + 128
inline constexpr int kWeightMax = 255;
inline constexpr bool kNarrowLevels = false;
inline constexpr int kValueBias = 0;

struct F32x16 { __m512 v; };
struct I32x16 { __m512i v; };

SWIVEL_INLINE F32x16 Zero() { return {_mm512_setzero_ps()}; }
SWIVEL_INLINE F32x16 Set(float x) { return {_mm512_set1_ps(x)}; }
SWIVEL_INLINE F32x16 Load(const float* p) { return {_mm512_loadu_ps(p)}; }
SWIVEL_INLINE void Store(float* p, F32x16 a) { _mm512_storeu_ps(p, a.v); }
SWIVEL_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {_mm512_add_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {_mm512_sub_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {_mm512_mul_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {_mm512_div_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 MulAdd(F32x16 a, F32x16 b, F32x16 c) { return {_mm512_fmadd_ps(a.v, b.v, c.v)}; }
SWIVEL_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {_mm512_min_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {_mm512_max_ps(a.v, b.v)}; }
SWIVEL_INLINE F32x16 Abs(F32x16 a) { return {_mm512_abs_ps(a.v)}; }
SWIVEL_INLINE F32x16 Round(F32x16 a) { return {_mm512_roundscale_ps(a.v, 0)}; }
SWIVEL_INLINE F32x16 ScalePow2(F32x16 a, F32x16 whole) { return {_mm512_scalef_ps(a.v, whole.v)}; }
SWIVEL_INLINE float ReduceAdd(F32x16 a) {
  const __m256 eight = _mm256_add_ps(_mm512_castps512_ps256(a.v), _mm512_extractf32x8_ps(a.v, 1));
  const __m128 four = _mm_add_ps(_mm256_castps256_ps128(eight), _mm256_extractf128_ps(eight, 1));
  const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
  return _mm_cvtss_f32(_mm_add_ss(two, _mm_shuffle_ps(two, two, 1)));
}
SWIVEL_INLINE float ReduceMax(F32x16 a) { return _mm512_reduce_max_ps(a.v); }

// Lane i of the result is lane i ^ s.
template <int s>
SWIVEL_INLINE F32x16 SwapLanes(F32x16 a) {
  if constexpr (s == 1) return {_mm512_permute_ps(a.v, 0xb1)};
  if constexpr (s == 2) return {_mm512_permute_ps(a.v, 0x4e)};
  if constexpr (s == 4) return {_mm512_shuffle_f32x4(a.v, a.v, 0xb1)};
  if constexpr (s == 8) return {_mm512_shuffle_f32x4(a.v, a.v, 0x4e)};
}
// Lane i of the result is lane index_i (its low 4 bits), which is in the same half of 8 lanes as i.
SWIVEL_INLINE F32x16 PickLanes(F32x16 a, I32x16 index) { return {_mm512_permutexvar_ps(index.v, a.v)}; }
// Two quads of floats: lanes 0-3 and 4-7 hold the first, lanes 8-11 and 12-15 the second.
SWIVEL_INLINE F32x16 LoadQuads(const float* first, const float* second) {
  const __m512 all = _mm512_broadcast_f32x4(_mm_loadu_ps(first));
  return {_mm512_mask_broadcast_f32x4(all, 0xff00, _mm_loadu_ps(second))};
}
// p[4 i + k] is lane i of the k-th vector.
SWIVEL_INLINE void StoreInterleaved4(float* p, F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  const __m512 ab = _mm512_unpacklo_ps(a.v, b.v), ab_high = _mm512_unpackhi_ps(a.v, b.v);
  const __m512 cd = _mm512_unpacklo_ps(c.v, d.v), cd_high = _mm512_unpackhi_ps(c.v, d.v);
  const __m512 r0 = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));  // lanes 0, 4, 8, 12 of a, b, c, d
  const __m512 r1 = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab), _mm512_castps_pd(cd)));
  const __m512 r2 = _mm512_castpd_ps(_mm512_unpacklo_pd(_mm512_castps_pd(ab_high), _mm512_castps_pd(cd_high)));
  const __m512 r3 = _mm512_castpd_ps(_mm512_unpackhi_pd(_mm512_castps_pd(ab_high), _mm512_castps_pd(cd_high)));
  const __m512 low01 = _mm512_shuffle_f32x4(r0, r1, 0x44), low23 = _mm512_shuffle_f32x4(r2, r3, 0x44);
  const __m512 high01 = _mm512_shuffle_f32x4(r0, r1, 0xee), high23 = _mm512_shuffle_f32x4(r2, r3, 0xee);
  _mm512_storeu_ps(p, _mm512_shuffle_f32x4(low01, low23, 0x88));
  _mm512_storeu_ps(p + 16, _mm512_shuffle_f32x4(low01, low23, 0xdd));
  _mm512_storeu_ps(p + 32, _mm512_shuffle_f32x4(high01, high23, 0x88));
  _mm512_storeu_ps(p + 48, _mm512_shuffle_f32x4(high01, high23, 0xdd));
}
// Flips the sign of the lanes i that have bit s.
template <int s>
SWIVEL_INLINE F32x16 FlipSignLanes(F32x16 a) {
  constexpr __mmask16 lanes = s == 1 ? 0xaaaa : s == 2 ? 0xcccc : s == 4 ? 0xf0f0 : 0xff00;
  return {_mm512_mask_xor_ps(a.v, lanes, a.v, _mm512_set1_ps(-0.0f))};
}

SWIVEL_INLINE F32x16 SelectBits(uint32_t bits, F32x16 a, F32x16 b) { return {_mm512_mask_blend_ps(static_cast<__mmask16>(bits), b.v, a.v)}; }
SWIVEL_INLINE uint32_t LessBits(F32x16 a, F32x16 b) { return _mm512_cmp_ps_mask(a.v, b.v, _CMP_LT_OQ); }
// A bit for each of 64 words that equals `value`.
SWIVEL_INLINE uint64_t EqualBits64(const uint16_t* words, uint16_t value) {
  const __m512i all = _mm512_set1_epi16(static_cast<short>(value));
  const uint64_t low = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(words), all);
  const uint64_t high = _mm512_cmpeq_epi16_mask(_mm512_loadu_si512(words + 32), all);
  return low | high << 32;
}
SWIVEL_INLINE void Prefetch(const void* p) { _mm_prefetch(static_cast<const char*>(p), _MM_HINT_T1); }

SWIVEL_INLINE F32x16 LoadF16(const uint16_t* p) { return {_mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)))}; }
SWIVEL_INLINE __m512i WidenU16(const void* p) { return _mm512_cvtepu16_epi32(_mm256_loadu_si256(static_cast<const __m256i*>(p))); }
SWIVEL_INLINE F32x16 LoadBf16(const uint16_t* p) { return {_mm512_castsi512_ps(_mm512_slli_epi32(WidenU16(p), 16))}; }
SWIVEL_INLINE F32x16 LoadScale(const uint16_t* p) { return {_mm512_castsi512_ps(_mm512_slli_epi32(WidenU16(p), 15))}; }

SWIVEL_INLINE I32x16 ZeroI32() { return {_mm512_setzero_si512()}; }
SWIVEL_INLINE I32x16 SetI32(int32_t x) { return {_mm512_set1_epi32(x)}; }
SWIVEL_INLINE I32x16 LoadRaw(const void* p) { return {_mm512_loadu_si512(p)}; }
SWIVEL_INLINE void StoreRaw(void* p, I32x16 a) { _mm512_storeu_si512(p, a.v); }
SWIVEL_INLINE I32x16 And(I32x16 a, I32x16 b) { return {_mm512_and_si512(a.v, b.v)}; }
SWIVEL_INLINE I32x16 Or(I32x16 a, I32x16 b) { return {_mm512_or_si512(a.v, b.v)}; }
SWIVEL_INLINE I32x16 Xor(I32x16 a, I32x16 b) { return {_mm512_xor_si512(a.v, b.v)}; }
// Lane i of the result is lane i - 1, lane 0 is zero.
SWIVEL_INLINE I32x16 LanesUp(I32x16 a) { return {_mm512_alignr_epi32(a.v, _mm512_setzero_si512(), 15)}; }
SWIVEL_INLINE I32x16 ShiftLeft32(I32x16 a, int n) { return {_mm512_sll_epi32(a.v, _mm_cvtsi32_si128(n))}; }
SWIVEL_INLINE I32x16 ShiftRight32(I32x16 a, int n) { return {_mm512_srl_epi32(a.v, _mm_cvtsi32_si128(n))}; }
SWIVEL_INLINE F32x16 ToFloat(I32x16 a) { return {_mm512_cvtepi32_ps(a.v)}; }
// Adds 1 to the lanes of `count` where x >= threshold.
SWIVEL_INLINE I32x16 CountAtLeast(I32x16 count, F32x16 x, F32x16 threshold) {
  return {_mm512_mask_sub_epi32(count.v, _mm512_cmp_ps_mask(x.v, threshold.v, _CMP_GE_OQ), count.v, _mm512_set1_epi32(-1))};
}
SWIVEL_INLINE void StoreLowBytes(uint8_t* p, I32x16 a) { _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a.v)); }
// Rounds to whole numbers of -128..255 and stores their low bytes.
SWIVEL_INLINE void StoreBytes(void* p, F32x16 a) {
  _mm_storeu_si128(static_cast<__m128i*>(p), _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(a.v)));
}

// Codes: tables repeat the codebook over all indices, so that higher bits of an index need no masking.
struct ByteTable { __m512i v; };
// A code's float value by its index 0..15 in the low bits of each lane.
struct FloatTable { __m512 v; };
SWIVEL_INLINE FloatTable MakeFloatTable(const float* sixteen) { return {_mm512_loadu_ps(sixteen)}; }
SWIVEL_INLINE F32x16 LookupFloats(FloatTable t, I32x16 index) { return {_mm512_permutexvar_ps(index.v, t.v)}; }
SWIVEL_INLINE ByteTable MakeByteTable(const uint8_t* sixteen) {
  return {_mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(sixteen)))};
}
// Each byte (word) shifted right by `shift` bits within its 16-bit half; bits above the field are left as they are. Byte fields may
// receive bits from the neighbouring byte above the field: the lookups ignore them.
template <int shift>
SWIVEL_INLINE I32x16 FieldDown(I32x16 a) {
  if constexpr (shift == 0) return a;
  if constexpr (shift > 0) return {_mm512_srli_epi16(a.v, shift)};
  if constexpr (shift < 0) return {_mm512_slli_epi16(a.v, -shift)};
}
// The low `bits` bits of each byte from `low`, the others from `high`.
template <int bits = 2>
SWIVEL_INLINE I32x16 JoinBytes(I32x16 low, I32x16 high) {
  return {_mm512_ternarylogic_epi32(_mm512_set1_epi8((1 << bits) - 1), low.v, high.v, 0xca)};
}
template <int bits>
SWIVEL_INLINE I32x16 LookupBytes(ByteTable t, I32x16 index) { return {_mm512_permutexvar_epi8(index.v, t.v)}; }
// Tables of up to 128 entries, from memory that repeats them to at least 64; indices are the low `bits` bits of each byte.
template <int bits>
struct CodeTable { __m512i v, high; };
template <int bits>
SWIVEL_INLINE CodeTable<bits> MakeCodeTable(const uint8_t* entries) {
  return {_mm512_loadu_si512(entries), bits > 6 ? _mm512_loadu_si512(entries + 64) : _mm512_setzero_si512()};
}
template <int bits>
SWIVEL_INLINE I32x16 LookupCodes(CodeTable<bits> t, I32x16 index) {
  if constexpr (bits > 6) return {_mm512_permutex2var_epi8(t.v, index.v, t.high)};
  return {_mm512_permutexvar_epi8(index.v, t.v)};
}
// acc + the sum of 4 products of table bytes and the signed bytes of q.
// In assembly, because GCC 12 copies and spills accumulators of the intrinsic when more than half of the registers accumulate.
SWIVEL_INLINE I32x16 DotBytes(I32x16 acc, I32x16 table_bytes, int32_t q) {
  const __m512i all = _mm512_set1_epi32(q);
  asm("vpdpbusd %2, %1, %0" : "+v"(acc.v) : "v"(table_bytes.v), "v"(all));
  return acc;
}
// acc + the sum of 4 products of signed levels and the unsigned bytes of `weights`, each at most kWeightMax.
SWIVEL_INLINE I32x16 DotWeights(I32x16 acc, I32x16 levels, int32_t weights) {
  const __m512i all = _mm512_set1_epi32(weights);
  asm("vpdpbusd %2, %1, %0" : "+v"(acc.v) : "v"(all), "v"(levels.v));
  return acc;
}
