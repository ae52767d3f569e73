// Online softmax of one row over one group, in base 2: scores become weights, weights become bytes.

inline constexpr float kLog2E = 1.44269504f;

// 2^x for x <= 0; below -126 it stays at 2^-126. Polynomial on [-1/2, 1/2] (minimax, relative error 2e-7).
SWIVEL_INLINE F32x16 Exp2Negative(F32x16 x) {
  const F32x16 t = Max(x, Set(-126.0f));
  const F32x16 whole = Round(t);
  const F32x16 f = Sub(t, whole);
  F32x16 p = Set(1.33335581e-3f);
  p = MulAdd(p, f, Set(9.61812910e-3f));
  p = MulAdd(p, f, Set(5.55041087e-2f));
  p = MulAdd(p, f, Set(2.40226507e-1f));
  p = MulAdd(p, f, Set(6.93147182e-1f));
  p = MulAdd(p, f, Set(1.0f));
  return ScalePow2(p, whole);
}

// tanh x = sign(x) (1 - e) / (1 + e), e = e^(-2|x|).
SWIVEL_INLINE F32x16 Tanh(F32x16 x) {
  const F32x16 e = Exp2Negative(Mul(Abs(x), Set(-2.0f * kLog2E)));
  const F32x16 magnitude = Div(Sub(Set(1.0f), e), Add(Set(1.0f), e));
  return SelectBits(LessBits(x, Zero()), Sub(Zero(), magnitude), magnitude);
}

// What a row sees of a group.
struct RowMask {
  TokenBits visible;
  const uint16_t* values;  // 128 values to be added to the logits; null when those of the visible cells are all 0
};

// Raw scores of a row over a group.
struct RowScores {
  const float* first;   // [128] of the first part of the coordinates
  const float* second;  // [128] of the second, or null
  float shift;          // what is the same for all cells of the group
};

// How raw scores become logits in base 2: first * factor[0] + second * factor[1] + shift, soft-capped, plus slope * mask.
struct Logits {
  float factor[kMaxSegments];
  float unit;     // of what is added by `shift`: a product of the model's own q and k becomes a logit
  float cap;      // 0: none
  float inv_cap;
  float slope;    // of the mask's values, log2(e) included
};

// Row state of the online softmax.
struct RowSum {
  float* max;   // of the logits so far, base 2
  float* sum;   // of 2^(logit - max)
  float* mass;  // set: this group's share of the sum
};

// Turns raw scores into weights 2^(logit - max), 0 where the row sees nothing; returns what the row's earlier sums are to be multiplied by.
SWIVEL_INLINE float SoftmaxRow(const RowScores& scores, const RowMask& mask, const Logits& how, TokenBits poison, RowSum row,
                               F32x16 (&weights)[kGroupVectors]) {
  const bool all = mask.visible.All();
  const F32x16 factor = Set(how.factor[0]);
  const F32x16 shift = Set(scores.shift);
  SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = MulAdd(Load(scores.first + 16 * v), factor, shift);
  if (scores.second != nullptr) {
    const F32x16 second = Set(how.factor[1]);
    SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = MulAdd(Load(scores.second + 16 * v), second, weights[v]);
  }
  if (how.cap > 0.0f) {
    for (int v = 0; v < kGroupVectors; ++v) weights[v] = Mul(Tanh(Mul(weights[v], Set(how.inv_cap))), Set(how.cap));
  }
  if (mask.values != nullptr) {
    const F32x16 slope = Set(how.slope);
    SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = MulAdd(LoadF16(mask.values + 16 * v), slope, weights[v]);
  }
  if (!all) {
    const F32x16 minus_inf = Set(-std::numeric_limits<float>::infinity());
    SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = SelectBits(mask.visible.OfVector(v), weights[v], minus_inf);
  }
  F32x16 largest16 = weights[0];
  SWIVEL_UNROLL for (int v = 1; v < kGroupVectors; ++v) largest16 = Max(largest16, weights[v]);
  const float before = *row.max;
  const float largest = std::max(before, ReduceMax(largest16));
  const float keep = before == largest ? 1.0f : std::exp2(before - largest);  // 0 for the first visible group: max is -inf
  *row.max = largest;
  const F32x16 offset = Set(largest);
  SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = Exp2Negative(Sub(weights[v], offset));
  if (!all) {
    SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) weights[v] = SelectBits(mask.visible.OfVector(v), weights[v], Zero());
  }
  F32x16 sum16 = weights[0];
  SWIVEL_UNROLL for (int v = 1; v < kGroupVectors; ++v) sum16 = Add(sum16, weights[v]);
  *row.mass = ReduceAdd(sum16);
  *row.sum = *row.sum * keep + *row.mass;
  const uint64_t poisoned = (mask.visible.word[0] & poison.word[0]) | (mask.visible.word[1] & poison.word[1]);
  if (poisoned != 0) *row.sum = std::numeric_limits<float>::quiet_NaN();
  return keep;
}

// Where the 16 lanes start to round: spread over one unit (bit-reversed, so that neighbours differ), which makes the rounding of equal
// small weights unbiased across lanes. A constant pattern, so that results are reproducible.
alignas(64) inline constexpr float kDither[16] = {-15.f / 32, 1.f / 32,  -7.f / 32, 9.f / 32,  -11.f / 32, 5.f / 32,  -3.f / 32, 13.f / 32,
                                                  -13.f / 32, 3.f / 32,  -5.f / 32, 11.f / 32, -9.f / 32,  7.f / 32,  -1.f / 32, 15.f / 32};

// Weights times the scales of their values as bytes of 0 … kWeightMax; returns what one unit is worth (0 when all are 0).
//
// Plain rounding would lose every weight below 1/510 of the group's largest, and with it the mass of a long tail. Here, what rounding
// takes from a token is handed to the token 32 further on (error feedback; two chains, because one would wait for its own latency), so the mass
// of a group is kept within a few units. What is carried stays within half a unit, so a weight of exactly 0 (a masked cell) rounds to 0 whatever its neighbours hand over.
SWIVEL_INLINE float QuantizeWeights(const F32x16 (&weights)[kGroupVectors], const float* scales, uint8_t* bytes) {
  F32x16 scaled[kGroupVectors];
  SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) scaled[v] = Mul(weights[v], Load(scales + 16 * v));
  F32x16 largest16 = scaled[0];
  SWIVEL_UNROLL for (int v = 1; v < kGroupVectors; ++v) largest16 = Max(largest16, scaled[v]);
  const float largest = ReduceMax(largest16);
  // A largest weight so small that its inverse overflows carries no mass that a float sum could show.
  const bool vanishes = largest < std::numeric_limits<float>::min() * 1024;
  const F32x16 to_units = Set(vanishes ? 0.0f : kWeightMax / largest);
  F32x16 carried[2] = {Load(kDither), Load(kDither)};
  SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) {
    const F32x16 wanted = MulAdd(scaled[v], to_units, carried[v % 2]);
    const F32x16 units = Min(Round(wanted), Set(kWeightMax));
    StoreBytes(bytes + 16 * v, units);
    carried[v % 2] = Sub(wanted, units);
  }
  return vanishes ? 0.0f : largest / kWeightMax;
}
