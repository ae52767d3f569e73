// Encoding of one row of trellis codes (codec/tcq.cc, math/trellis.h): the same operations in the same order on vectors, so that bytes are
// equal on every target.
//
// Three steps. Errors: for 16 coordinates at a time the nearest level of each of the four subsets. Search: the forward search in lanes 0-7
// and the backward search in lanes 8-15, a state a lane, one coordinate of each a step. Traceback: both halves of the path, scalar,
// from the middle outwards.

// Calls f.operator()<bits>() for the number of bits of a trellis code.
template <class F>
SWIVEL_INLINE void WithTrellisBits(int bits, F f) {
  switch (bits) {
    case 1:
      return f.template operator()<1>();
    case 2:
      return f.template operator()<2>();
    case 3:
      return f.template operator()<3>();
    case 4:
      return f.template operator()<4>();
    case 5:
      return f.template operator()<5>();
    default:
      return f.template operator()<6>();
  }
}

// What the search leaves for the traceback; coordinates in their own order, not the trellis's.
struct TrellisScratch {
  alignas(64) float error[4 * kMaxHeadWidth];     // [coordinate][subset]
  alignas(64) uint8_t choice[4 * kMaxHeadWidth];  // [coordinate][subset]: 2 m
  uint16_t second[kMaxHeadWidth / 2];             // [step]: a bit a lane, set where it was reached the second way
  alignas(64) int32_t codes[kMaxHeadWidth];       // u + 2 m
  alignas(64) float levels[kMaxHeadWidth];
};

// The level of the choice `index` in a subset of kChoices levels, read from rows of 16.
template <int kChoices>
SWIVEL_INLINE F32x16 LevelOfChoice(const float* levels, I32x16 index, F32x16 t, float middle) {
  const F32x16 low = LookupFloats(MakeFloatTable(levels), index);
  if constexpr (kChoices <= 16) return low;
  return SelectBits(LessBits(t, Set(middle)), low, LookupFloats(MakeFloatTable(levels + 16), index));
}

template <int kChoices>
SWIVEL_INLINE void TrellisErrors(const TrellisBook& book, const float* y, float to_unit, int width, TrellisScratch& s) {
  // A subset's levels and the thresholds between them, each on its own.
  alignas(64) float levels[4][kChoices < 16 ? 16 : kChoices] = {};
  float thresholds[4][kChoices] = {};
  for (int k = 0; k < 4; ++k) {
    for (int m = 0; m < kChoices; ++m) levels[k][m] = book.level[4 * m + k];
    for (int m = 0; m + 1 < kChoices; ++m) thresholds[k][m] = TrellisThreshold(book, k, m);
  }
  for (int i = 0; i < width; i += 16) {
    const F32x16 t = Mul(Load(y + i), Set(to_unit));
    F32x16 error[4];
    I32x16 choice = ZeroI32();
    SWIVEL_UNROLL for (int k = 0; k < 4; ++k) {
      I32x16 m = ZeroI32();
      SWIVEL_UNROLL for (int j = 0; j + 1 < kChoices; ++j) m = CountAtLeast(m, t, Set(thresholds[k][j]));
      choice = Or(choice, ShiftLeft32(m, 8 * k + 1));
      const F32x16 e = Sub(t, LevelOfChoice<kChoices>(levels[k], m, t, thresholds[k][kChoices > 16 ? 15 : 0]));
      error[k] = Mul(e, e);
    }
    StoreRaw(s.choice + 4 * i, choice);
    StoreInterleaved4(s.error + 4 * i, error[0], error[1], error[2], error[3]);
  }
}

// The search keeps costs where they are: the two states into which a pair of states leads stand in the lanes of that pair. So a step
// exchanges lanes at a distance of 4, 2 or 1 in turn (kPhase 0, 1, 2), and before phase p lane l of a half holds state RotateState(l, p).
// (Moving states to lanes of their own number would cross registers in every step, in the middle of the serial chain.)
constexpr int RotateState(int state, int by) {
  for (int i = 0; i < by; ++i) state = (state << 1 & 7) | state >> 2;
  return state;
}
template <int kPhase>
inline constexpr int kDistance = 4 >> kPhase;

// Of a phase. For PickLanes: the subsets through which a lane is reached from itself and from its partner. For the traceback: the subset by
// the lane after the step and, as bit 3, whether it was reached the second way.
struct TrellisPhase {
  alignas(64) int32_t from_own[16], from_partner[16];
  uint8_t subset[16], subset_back[16];
};
constexpr TrellisPhase MakeTrellisPhase(int phase) {
  TrellisPhase lanes = {};
  for (int lane = 0; lane < 8; ++lane) {
    const int after = RotateState(lane, phase + 1);
    const bool own_is_second = (lane & 4 >> phase) != 0;
    for (int half : {0, 8}) {
      const int first = half == 0 ? kTrellisFirst[after] : kTrellisFirstBack[after];
      const int second = half == 0 ? kTrellisSecond[after] : kTrellisSecondBack[after];
      lanes.from_own[half + lane] = half + (own_is_second ? second : first);
      lanes.from_partner[half + lane] = half + (own_is_second ? first : second);
      (half == 0 ? lanes.subset : lanes.subset_back)[lane] = static_cast<uint8_t>(first);
      (half == 0 ? lanes.subset : lanes.subset_back)[8 + lane] = static_cast<uint8_t>(second);
    }
  }
  return lanes;
}
alignas(64) static constexpr TrellisPhase kTrellisPhases[3] = {MakeTrellisPhase(0), MakeTrellisPhase(1), MakeTrellisPhase(2)};

// One coordinate of each half; returns a bit for each lane that was reached the second way.
template <int kPhase>
SWIVEL_INLINE uint32_t StepTrellis(const float* error, const float* error_back, F32x16* cost) {
  const F32x16 errors = LoadQuads(error, error_back);
  const F32x16 own = Add(*cost, PickLanes(errors, LoadRaw(kTrellisPhases[kPhase].from_own)));
  const F32x16 partner = Add(SwapLanes<kDistance<kPhase>>(*cost), PickLanes(errors, LoadRaw(kTrellisPhases[kPhase].from_partner)));
  constexpr uint32_t kOwnIsSecond = kPhase == 0 ? 0xf0f0 : kPhase == 1 ? 0xcccc : 0xaaaa;
  *cost = Min(own, partner);
  return (LessBits(partner, own) & ~kOwnIsSecond) | (LessBits(own, partner) & kOwnIsSecond);
}

// Fills s.second and returns the state in the middle of the best path. Step n visits the coordinate of place n and, its mirror image, that
// of place width - 1 - n.
SWIVEL_INLINE int SearchTrellis(int width, int passes, TrellisScratch& s) {
  alignas(64) float lanes[16] = {};
  for (int i = 1; i < 8; ++i) lanes[i] = std::numeric_limits<float>::infinity();
  F32x16 cost = Load(lanes);
  const int steps = width / 2;
  int i = 0;
  const auto step = [&]<int kPhase>(int n) {
    s.second[n] = static_cast<uint16_t>(StepTrellis<kPhase>(s.error + 4 * i, s.error + 4 * (width - 1 - i), &cost));
    i += passes;
    i = i < width ? i : i - width + 1;
  };
  int n = 0;
  for (; n + 3 <= steps; n += 3) {
    step.template operator()<0>(n);
    step.template operator()<1>(n + 1);
    step.template operator()<2>(n + 2);
  }
  if (n < steps) step.template operator()<0>(n);
  if (n + 1 < steps) step.template operator()<1>(n + 1);
  Store(lanes, cost);
  int meet = 0;
  float least = std::numeric_limits<float>::infinity();
  const int turn_back = 3 - steps % 3;  // from state to lane
  for (int state = 0; state < kTrellisStates; ++state) {
    const float total = lanes[RotateState(state, turn_back)] + lanes[8 + RotateState(kReversedBits[state], turn_back)];
    if (total < least) {
      least = total;
      meet = state;
    }
  }
  return meet;
}

// Walks both halves of the path outwards, lane by lane, and writes codes and levels.
SWIVEL_INLINE void TraceTrellis(const TrellisBook& book, int width, int passes, int meet, TrellisScratch& s) {
  const float* levels = book.level;
  int n = width / 2;
  const int turn_back = 3 - n % 3;
  size_t lane = RotateState(meet, turn_back), lane_back = RotateState(kReversedBits[meet], turn_back);
  const int rounds = width / passes;
  int i = (n - 1) % rounds * passes + (n - 1) / rounds;
  const auto write = [&](int at, size_t u, size_t subset) {
    const size_t choice = s.choice[4 * at + subset];
    s.codes[at] = static_cast<int32_t>(u + choice);
    s.levels[at] = levels[2 * choice + subset];
  };
  const auto step = [&]<int kPhase>() {
    constexpr size_t kBit = 2 - kPhase;  // of a lane: the path bit after the step, the way before
    constexpr size_t kKeep = 7 & ~(size_t{1} << kBit);
    const uint32_t second = s.second[--n];
    const size_t way = second >> lane & 1;
    write(i, lane >> kBit & 1, kTrellisPhases[kPhase].subset[lane + 8 * way]);
    lane = (lane & kKeep) | way << kBit;
    const size_t u = second >> 8 >> lane_back & 1;
    write(width - 1 - i, u, kTrellisPhases[kPhase].subset_back[lane_back + 8 * u]);
    lane_back = (lane_back & kKeep) | u << kBit;
    i -= passes;
    i = i >= 0 ? i : i + width - 1;
  };
  const int rest = n % 3;
  if (rest == 2) step.template operator()<1>();
  if (rest >= 1) step.template operator()<0>();
  while (n > 0) {
    step.template operator()<2>();
    step.template operator()<1>();
    step.template operator()<0>();
  }
}

// Packs the codes u + 2 m of 16 coordinates, one a lane; see codec/trellis_planes.h.
template <int kBits>
SWIVEL_INLINE void PackTrellisKeys(I32x16 codes, int width, int token, int coordinate, uint8_t* group) {
  uint8_t bytes[16];
  StoreLowBytes(bytes, codes);
  uint32_t quad[4];
  std::memcpy(quad, bytes, 16);
  const int second = token / 16 % 2;
  uint8_t* at = group + TrellisCell(kBits, width, token, coordinate) + 4 * (token % 16);
  const auto put_bit = [&](uint8_t* block, int shift) {
    uint32_t nibbles = 0, both;  // the other tile owns the other nibble
    for (int s = 0; s < 4; ++s) nibbles |= (quad[s] >> shift & 0x01010101u) << s;
    std::memcpy(&both, block, 4);
    both = (both & ~(0x0f0f0f0fu << (4 * second))) | nibbles << (4 * second);
    std::memcpy(block, &both, 4);
  };
  constexpr int kField = TrellisFieldBits(kBits);
  put_bit(at, 0);
  if constexpr (TrellisHighBits(kBits) != 0) put_bit(at + 64, 1 + kField);
  uint8_t* fields = at + 64 * (1 + TrellisHighBits(kBits));
  if constexpr (kField == 2) {
    uint32_t word = 0;
    for (int s = 0; s < 4; ++s) word |= (quad[s] >> 1 & 0x03030303u) << (2 * s);
    std::memcpy(fields + 64 * second, &word, 4);
  } else if constexpr (kField == 4) {
    for (int half = 0; half < 2; ++half) {
      const uint32_t word = (quad[2 * half] >> 1 & 0x0f0f0f0fu) | (quad[2 * half + 1] >> 1 & 0x0f0f0f0fu) << 4;
      std::memcpy(fields + 64 * (2 * second + half), &word, 4);
    }
  }
}

template <int kBits>
SWIVEL_INLINE void PackTrellisValues(I32x16 codes, int width, int token, int coordinate, uint8_t* group) {
  uint8_t* at = group + TrellisCell(kBits, width, token, coordinate);
  const int shift = token % 4 * 8;
  const int quad = token % 32 / 4;
  constexpr int kField = TrellisFieldBits(kBits);
  const I32x16 one = SetI32(1);
  PutValueField(at, shift + quad, 1, And(codes, one));
  if constexpr (TrellisHighBits(kBits) != 0) PutValueField(at + 64, shift + quad, 1, And(ShiftRight32(codes, 1 + kField), one));
  if constexpr (kField != 0) {
    constexpr int kMask = (1 << kField) - 1;
    constexpr int kQuads = 8 / kField;
    PutValueField(at + 64 * (1 + TrellisHighBits(kBits) + quad / kQuads), shift + quad % kQuads * kField, kMask,
                  And(ShiftRight32(codes, 1), SetI32(kMask)));
  }
}

template <int kBits>
SWIVEL_INLINE void PackTrellisCodes(I32x16 codes, int width, Side side, int token, int coordinate, uint8_t* group) {
  if (side == Side::kKey) {
    PackTrellisKeys<kBits>(codes, width, token, coordinate, group);
  } else {
    PackTrellisValues<kBits>(codes, width, token, coordinate, group);
  }
}

template <int kBits>
SWIVEL_INLINE uint16_t EncodeTrellisBits(Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token) {
  alignas(64) float y[kMaxHeadWidth];
  const VectorRow loaded = LoadVectorRow(frame, row, width, y);
  if (loaded.is_flat) {
    const I32x16 flat = SetI32((1 << (kBits - 1) >> 1) << 1);
    for (int i = 0; i < width; i += 16) PackTrellisCodes<kBits>(flat, width, side, token, i, codes);
    return loaded.flat_scale;
  }
  const TrellisBook& book = GetTrellisBook(kBits);
  TrellisScratch s;
  TrellisErrors<1 << (kBits - 1)>(book, y, std::sqrt(static_cast<float>(width) / loaded.norm2), width, s);
  const int passes = TrellisPasses(side);
  TraceTrellis(book, width, passes, SearchTrellis(width, passes, s), s);
  F32x16 code_norm16 = Zero();
  F32x16 product16 = Zero();
  for (int i = 0; i < width; i += 16) {
    PackTrellisCodes<kBits>(LoadRaw(s.codes + i), width, side, token, i, codes);
    const F32x16 c = Load(s.levels + i);
    code_norm16 = Add(code_norm16, Mul(c, c));
    product16 = Add(product16, Mul(c, Load(y + i)));
  }
  return RowScale(mode, {loaded.norm2, ReduceAdd(code_norm16), ReduceAdd(product16)}, loaded.exponent);
}

uint16_t EncodeTrellis(int bits, Frame frame, const float* row, int width, Side side, ScaleMode mode, uint8_t* codes, int token) {
  uint16_t scale = 0;
  WithTrellisBits(bits, [&]<int kBits>() { scale = EncodeTrellisBits<kBits>(frame, row, width, side, mode, codes, token); });
  return scale;
}
