// The vector vocabulary in plain C++ with compiler vectors: any processor. See README.md for what each operation means.
// Included only inside the target's namespace (targets/portable.cc), hence no include of its own.

inline constexpr int kRowBlock = 2;
inline constexpr int kVectorBlock = 1;
inline constexpr int kByteBias = 0;
inline constexpr int kWeightMax = 255;
inline constexpr bool kNarrowLevels = false;
inline constexpr int kValueBias = 0;

typedef float FloatVector __attribute__((vector_size(64)));
typedef int32_t IntVector __attribute__((vector_size(64)));
typedef int16_t WordVector __attribute__((vector_size(64)));
typedef uint16_t UnsignedWordVector __attribute__((vector_size(64)));
typedef int8_t ByteVector __attribute__((vector_size(64)));

struct F32x16 { FloatVector v; };
struct I32x16 { IntVector v; };

SWIVEL_INLINE F32x16 Zero() { return {FloatVector{}}; }
SWIVEL_INLINE F32x16 Set(float x) { return {FloatVector{} + x}; }
SWIVEL_INLINE F32x16 Load(const float* p) {
  F32x16 a;
  std::memcpy(&a, p, sizeof(a));
  return a;
}
SWIVEL_INLINE void Store(float* p, F32x16 a) { std::memcpy(p, &a, sizeof(a)); }
SWIVEL_INLINE F32x16 Add(F32x16 a, F32x16 b) { return {a.v + b.v}; }
SWIVEL_INLINE F32x16 Sub(F32x16 a, F32x16 b) { return {a.v - b.v}; }
SWIVEL_INLINE F32x16 Mul(F32x16 a, F32x16 b) { return {a.v * b.v}; }
SWIVEL_INLINE F32x16 Div(F32x16 a, F32x16 b) { return {a.v / b.v}; }
SWIVEL_INLINE F32x16 MulAdd(F32x16 a, F32x16 b, F32x16 c) { return {a.v * b.v + c.v}; }
SWIVEL_INLINE F32x16 Min(F32x16 a, F32x16 b) { return {a.v < b.v ? a.v : b.v}; }
SWIVEL_INLINE F32x16 Max(F32x16 a, F32x16 b) { return {a.v > b.v ? a.v : b.v}; }
SWIVEL_INLINE F32x16 Abs(F32x16 a) { return {reinterpret_cast<FloatVector>(reinterpret_cast<IntVector>(a.v) & 0x7fffffff)}; }
// Adding and subtracting 1.5 * 2^23 rounds to nearest even for |a| < 2^22, which holds where the kernels round.
SWIVEL_INLINE F32x16 Round(F32x16 a) { return {(a.v + 12582912.0f) - 12582912.0f}; }
SWIVEL_INLINE IntVector ToInt(F32x16 a) { return __builtin_convertvector(Round(a).v, IntVector); }
SWIVEL_INLINE F32x16 ScalePow2(F32x16 a, F32x16 whole) { return {a.v * reinterpret_cast<FloatVector>((ToInt(whole) + 127) << 23)}; }
SWIVEL_INLINE float ReduceAdd(F32x16 a) {
  float lanes[16];
  Store(lanes, a);
  for (int half = 8; half > 0; half /= 2) {
    for (int i = 0; i < half; ++i) lanes[i] += lanes[i + half];
  }
  return lanes[0];
}
SWIVEL_INLINE float ReduceMax(F32x16 a) {
  float largest = a.v[0];
  for (int i = 1; i < 16; ++i) largest = largest > a.v[i] ? largest : a.v[i];
  return largest;
}

template <int s>
SWIVEL_INLINE F32x16 SwapLanes(F32x16 a) {
  F32x16 swapped;
  for (int i = 0; i < 16; ++i) swapped.v[i] = a.v[i ^ s];
  return swapped;
}
SWIVEL_INLINE F32x16 PickLanes(F32x16 a, I32x16 index) {
  F32x16 picked;
  for (int i = 0; i < 16; ++i) picked.v[i] = a.v[index.v[i]];
  return picked;
}
SWIVEL_INLINE F32x16 LoadQuads(const float* first, const float* second) {
  F32x16 a;
  for (int i = 0; i < 8; ++i) a.v[i] = first[i & 3];
  for (int i = 8; i < 16; ++i) a.v[i] = second[i & 3];
  return a;
}
SWIVEL_INLINE void StoreInterleaved4(float* p, F32x16 a, F32x16 b, F32x16 c, F32x16 d) {
  for (int i = 0; i < 16; ++i) {
    p[4 * i] = a.v[i];
    p[4 * i + 1] = b.v[i];
    p[4 * i + 2] = c.v[i];
    p[4 * i + 3] = d.v[i];
  }
}
template <int s>
SWIVEL_INLINE F32x16 FlipSignLanes(F32x16 a) {
  for (int i = 0; i < 16; ++i) a.v[i] = (i & s) != 0 ? -a.v[i] : a.v[i];
  return a;
}

SWIVEL_INLINE F32x16 SelectBits(uint32_t bits, F32x16 a, F32x16 b) {
  const IntVector bit = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096, 8192, 16384, 32768};
  return {((IntVector{} + static_cast<int32_t>(bits)) & bit) != 0 ? a.v : b.v};
}
SWIVEL_INLINE uint32_t LessBits(F32x16 a, F32x16 b) {
  uint32_t bits = 0;
  for (int i = 0; i < 16; ++i) bits |= static_cast<uint32_t>(a.v[i] < b.v[i]) << i;
  return bits;
}
// A bit for each of 64 words that equals `value`.
SWIVEL_INLINE uint64_t EqualBits64(const uint16_t* words, uint16_t value) {
  uint64_t bits = 0;
  for (int i = 0; i < 64; ++i) bits |= static_cast<uint64_t>(words[i] == value) << i;
  return bits;
}
SWIVEL_INLINE void Prefetch(const void* p) { __builtin_prefetch(p, 0, 2); }

__attribute__((noinline)) void LoadF16Loop(const uint16_t* p, float* out) {
  for (int i = 0; i < 16; ++i) out[i] = F32FromF16(p[i]);
}
SWIVEL_INLINE F32x16 LoadF16(const uint16_t* p) {
  F32x16 a;
  LoadF16Loop(p, reinterpret_cast<float*>(&a));
  return a;
}
template <int shift>
SWIVEL_INLINE F32x16 WidenU16(const uint16_t* p) {
  IntVector bits;
  for (int i = 0; i < 16; ++i) bits[i] = static_cast<int32_t>(static_cast<uint32_t>(p[i]) << shift);
  return {reinterpret_cast<FloatVector>(bits)};
}
SWIVEL_INLINE F32x16 LoadBf16(const uint16_t* p) { return WidenU16<16>(p); }
SWIVEL_INLINE F32x16 LoadScale(const uint16_t* p) { return WidenU16<15>(p); }

SWIVEL_INLINE I32x16 ZeroI32() { return {IntVector{}}; }
SWIVEL_INLINE I32x16 SetI32(int32_t x) { return {IntVector{} + x}; }
SWIVEL_INLINE I32x16 LoadRaw(const void* p) {
  I32x16 a;
  std::memcpy(&a, p, sizeof(a));
  return a;
}
SWIVEL_INLINE void StoreRaw(void* p, I32x16 a) { std::memcpy(p, &a, sizeof(a)); }
SWIVEL_INLINE I32x16 And(I32x16 a, I32x16 b) { return {a.v & b.v}; }
SWIVEL_INLINE I32x16 Or(I32x16 a, I32x16 b) { return {a.v | b.v}; }
SWIVEL_INLINE I32x16 Xor(I32x16 a, I32x16 b) { return {a.v ^ b.v}; }
SWIVEL_INLINE I32x16 LanesUp(I32x16 a) {
  I32x16 up = {IntVector{}};
  for (int i = 1; i < 16; ++i) up.v[i] = a.v[i - 1];
  return up;
}
SWIVEL_INLINE I32x16 ShiftLeft32(I32x16 a, int n) { return {a.v << n}; }
SWIVEL_INLINE I32x16 ShiftRight32(I32x16 a, int n) {
  typedef uint32_t UnsignedVector __attribute__((vector_size(64)));
  return {reinterpret_cast<IntVector>(reinterpret_cast<UnsignedVector>(a.v) >> n)};
}
SWIVEL_INLINE F32x16 ToFloat(I32x16 a) { return {__builtin_convertvector(a.v, FloatVector)}; }
SWIVEL_INLINE I32x16 CountAtLeast(I32x16 count, F32x16 x, F32x16 threshold) { return {count.v - (x.v >= threshold.v)}; }
SWIVEL_INLINE void StoreLowBytes(uint8_t* p, I32x16 a) {
  for (int i = 0; i < 16; ++i) p[i] = static_cast<uint8_t>(a.v[i]);
}
SWIVEL_INLINE void StoreBytes(void* p, F32x16 a) {
  const IntVector whole = ToInt(a);
  uint8_t bytes[16];
  for (int i = 0; i < 16; ++i) bytes[i] = static_cast<uint8_t>(whole[i]);
  std::memcpy(p, bytes, 16);
}

struct ByteTable { const uint8_t* v; };
struct FloatTable { const float* v; };
SWIVEL_INLINE FloatTable MakeFloatTable(const float* sixteen) { return {sixteen}; }
SWIVEL_INLINE F32x16 LookupFloats(FloatTable t, I32x16 index) {
  F32x16 a;
  for (int i = 0; i < 16; ++i) a.v[i] = t.v[index.v[i] & 15];
  return a;
}
SWIVEL_INLINE ByteTable MakeByteTable(const uint8_t* sixteen) { return {sixteen}; }
template <int shift>
SWIVEL_INLINE I32x16 FieldDown(I32x16 a) {
  const UnsignedWordVector words = reinterpret_cast<UnsignedWordVector>(a.v);
  if constexpr (shift < 0) return {reinterpret_cast<IntVector>(words << -shift)};
  if constexpr (shift >= 0) return {reinterpret_cast<IntVector>(words >> shift)};
}
template <int bits = 2>
SWIVEL_INLINE I32x16 JoinBytes(I32x16 low, I32x16 high) {
  constexpr int32_t kMask = ((1 << bits) - 1) * 0x01010101;
  return {(low.v & kMask) | (high.v & ~kMask)};
}
// Loops over bytes stay functions: inlined and unrolled into every kernel they would be most of the library.
__attribute__((noinline)) void LookupBytesLoop(const uint8_t* table, int mask, uint8_t* bytes) {
  for (int i = 0; i < 64; ++i) bytes[i] = table[bytes[i] & mask];
}
template <int bits>
SWIVEL_INLINE I32x16 LookupBytes(ByteTable t, I32x16 index) {
  LookupBytesLoop(t.v, (1 << bits) - 1, reinterpret_cast<uint8_t*>(&index));
  return index;
}
template <int bits>
struct CodeTable { const uint8_t* v; };
template <int bits>
SWIVEL_INLINE CodeTable<bits> MakeCodeTable(const uint8_t* entries) {
  return {entries};
}
template <int bits>
SWIVEL_INLINE I32x16 LookupCodes(CodeTable<bits> t, I32x16 index) {
  LookupBytesLoop(t.v, (1 << bits) - 1, reinterpret_cast<uint8_t*>(&index));
  return index;
}
// Products of four signed bytes a lane with four factors of -128..255, added to `sums`.
__attribute__((noinline)) void DotLoop(const int8_t* bytes, int f0, int f1, int f2, int f3, int32_t* sums) {
  for (int i = 0; i < 16; ++i) sums[i] += bytes[4 * i] * f0 + bytes[4 * i + 1] * f1 + bytes[4 * i + 2] * f2 + bytes[4 * i + 3] * f3;
}
SWIVEL_INLINE I32x16 DotBytes(I32x16 acc, I32x16 levels, int32_t q) {
  DotLoop(reinterpret_cast<const int8_t*>(&levels), static_cast<int8_t>(q), static_cast<int8_t>(q >> 8), static_cast<int8_t>(q >> 16),
          static_cast<int8_t>(q >> 24), reinterpret_cast<int32_t*>(&acc));
  return acc;
}
SWIVEL_INLINE I32x16 DotWeights(I32x16 acc, I32x16 levels, int32_t weights) {
  DotLoop(reinterpret_cast<const int8_t*>(&levels), weights & 255, weights >> 8 & 255, weights >> 16 & 255, weights >> 24 & 255,
          reinterpret_cast<int32_t*>(&acc));
  return acc;
}
