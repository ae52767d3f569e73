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
  uint16_t second[kMaxHeadWidth / 2];             // [step]: a bit a lane
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

// Lane indices of PickLanes: both halves of the trellis side by side.
struct TrellisLanes {
  alignas(64) int32_t first_cost[16], second_cost[16], first_subset[16], second_subset[16];
};
constexpr TrellisLanes MakeTrellisLanes() {
  TrellisLanes lanes = {};
  for (int s = 0; s < 8; ++s) {
    for (int half : {0, 8}) {
      lanes.first_cost[half + s] = half + s / 2;
      lanes.second_cost[half + s] = half + s / 2 + 4;
      lanes.first_subset[half + s] = half + (half == 0 ? kTrellisFirst[s] : kTrellisFirstBack[s]);
      lanes.second_subset[half + s] = half + (half == 0 ? kTrellisSecond[s] : kTrellisSecondBack[s]);
    }
  }
  return lanes;
}
alignas(64) static constexpr TrellisLanes kTrellisLanes = MakeTrellisLanes();

// Fills s.second and returns the state in the middle of the best path.
SWIVEL_INLINE int SearchTrellis(int width, int passes, TrellisScratch& s) {
  const I32x16 first_cost = LoadRaw(kTrellisLanes.first_cost), second_cost = LoadRaw(kTrellisLanes.second_cost);
  const I32x16 first_subset = LoadRaw(kTrellisLanes.first_subset), second_subset = LoadRaw(kTrellisLanes.second_subset);
  alignas(64) float lanes[16] = {};
  for (int i = 1; i < 8; ++i) lanes[i] = std::numeric_limits<float>::infinity();
  F32x16 cost = Load(lanes);
  // Step i visits the coordinate of place i and, its mirror image, that of place width - 1 - i.
  const int rounds = width / passes;
  int step = 0;
  for (int pass = 0; pass < passes / 2; ++pass) {
    for (int round = 0; round < rounds; ++round, ++step) {
      const int i = round * passes + pass;
      const F32x16 error = LoadQuads(s.error + 4 * i, s.error + 4 * (width - 1 - i));
      const F32x16 one = Add(PickLanes(cost, first_cost), PickLanes(error, first_subset));
      const F32x16 two = Add(PickLanes(cost, second_cost), PickLanes(error, second_subset));
      s.second[step] = static_cast<uint16_t>(LessBits(two, one));
      cost = Min(two, one);
    }
  }
  Store(lanes, cost);
  int meet = 0;
  float least = std::numeric_limits<float>::infinity();
  for (int state = 0; state < kTrellisStates; ++state) {
    const float total = lanes[state] + lanes[8 + kReversedBits[state]];
    if (total < least) {
      least = total;
      meet = state;
    }
  }
  return meet;
}

// The subset of a step by the state (name) after it and, as bit 3, the way into it.
struct TrellisWays {
  uint8_t subset[16], subset_back[16];
};
constexpr TrellisWays MakeTrellisWays() {
  TrellisWays ways = {};
  for (int s = 0; s < 8; ++s) {
    ways.subset[s] = kTrellisFirst[s];
    ways.subset[8 + s] = kTrellisSecond[s];
    ways.subset_back[s] = kTrellisFirstBack[s];
    ways.subset_back[8 + s] = kTrellisSecondBack[s];
  }
  return ways;
}
static constexpr TrellisWays kTrellisWays = MakeTrellisWays();

// Walks both halves of the path outwards and writes codes and levels.
SWIVEL_INLINE void TraceTrellis(const TrellisBook& book, int width, int passes, int meet, TrellisScratch& s) {
  const int rounds = width / passes;
  const float* levels = book.level;
  size_t state = static_cast<size_t>(meet), name = kReversedBits[meet];
  const uint16_t* second = s.second + width / 2;
  const auto write = [&](int i, size_t u, size_t subset) {
    const size_t choice = s.choice[4 * i + subset];
    s.codes[i] = static_cast<int32_t>(u + choice);
    s.levels[i] = levels[2 * choice + subset];
  };
  for (int pass = passes / 2 - 1; pass >= 0; --pass) {
    for (int i = (rounds - 1) * passes + pass; i >= 0; i -= passes) {
      const uint32_t bits = *--second;
      const size_t way = state + 8 * (bits >> state & 1);  // bit 3 is u_(n-3)
      write(i, state & 1, kTrellisWays.subset[way]);
      state = way / 2;
      const size_t u = bits >> 8 >> name & 1;
      const size_t way_back = name + 8 * u;
      write(width - 1 - i, u, kTrellisWays.subset_back[way_back]);
      name = way_back / 2;
    }
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
SWIVEL_INLINE void EncodeTrellisRow(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  uint8_t* scale_at = group + ScalesOffset(kBits, width) + 2 * token;
  alignas(64) float y[kMaxHeadWidth];
  const VectorRow loaded = LoadVectorRow(row, width, y);
  if (loaded.is_flat) {
    const I32x16 flat = SetI32((1 << (kBits - 1) >> 1) << 1);
    for (int i = 0; i < width; i += 16) PackTrellisCodes<kBits>(flat, width, side, token, i, group);
    std::memcpy(scale_at, &loaded.flat_scale, 2);
    return;
  }
  const TrellisBook& book = GetTrellisBook(kBits);
  TrellisScratch s;
  TrellisErrors<1 << (kBits - 1)>(book, y, std::sqrt(static_cast<float>(width) / loaded.norm2), width, s);
  const int passes = TrellisPasses(side);
  TraceTrellis(book, width, passes, SearchTrellis(width, passes, s), s);
  F32x16 code_norm16 = Zero();
  F32x16 product16 = Zero();
  for (int i = 0; i < width; i += 16) {
    PackTrellisCodes<kBits>(LoadRaw(s.codes + i), width, side, token, i, group);
    const F32x16 c = Load(s.levels + i);
    code_norm16 = Add(code_norm16, Mul(c, c));
    product16 = Add(product16, Mul(c, Load(y + i)));
  }
  const uint16_t scale = RowScale(mode, loaded.norm2, ReduceAdd(code_norm16), ReduceAdd(product16), loaded.exponent);
  std::memcpy(scale_at, &scale, 2);
}
