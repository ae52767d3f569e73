// From packed trellis codes (codec/trellis_planes.h) to the signed bytes of their levels, without a serial step.
//
// The subset bits z1, z0 of a coordinate are sums over GF(2) of four path bits, so those of the four fields of a byte are a linear map of the
// byte's path bits and the ones before: two lookups of 16 entries and an exclusive or give four 2-bit fields, which then join the fields
// of m as the high bits of a code of turbo3 do. The index of a level is | field of m | z1 z0 | highest bit of m |, low to high.

// What a nibble of path bits, lowest bit first, adds to four fields (z0 below z1).
struct SubsetTables {
  // Keys: the four of this block, and the four of the block before.
  alignas(16) uint8_t here[16], before[16];
  // Values: bits of z0 and of z1, spread to their fields.
  alignas(16) uint8_t z0[16], z1[16];
};

constexpr SubsetTables MakeSubsetTables() {
  SubsetTables tables = {};
  for (int nibble = 0; nibble < 16; ++nibble) {
    for (int s = 0; s < 4; ++s) {
      const auto here = [&](int k) { return k < 0 ? 0 : nibble >> k & 1; };
      const auto before = [&](int k) { return k < 0 ? nibble >> (k + 4) & 1 : 0; };
      tables.here[nibble] = static_cast<uint8_t>(tables.here[nibble] | TrellisSubset(here(s), here(s - 1), here(s - 2), here(s - 3)) << (2 * s));
      tables.before[nibble] =
          static_cast<uint8_t>(tables.before[nibble] | TrellisSubset(before(s), before(s - 1), before(s - 2), before(s - 3)) << (2 * s));
      tables.z0[nibble] = static_cast<uint8_t>(tables.z0[nibble] | (nibble >> s & 1) << (2 * s));
      tables.z1[nibble] = static_cast<uint8_t>(tables.z1[nibble] | (nibble >> s & 1) << (2 * s + 1));
    }
  }
  return tables;
}
alignas(64) static constexpr SubsetTables kSubsetTables = MakeSubsetTables();

// The levels of a book in the order of the index above, repeated to 64 entries.
SWIVEL_INLINE LevelTables MakeTrellisTables(int bits) {
  const TrellisBook& book = GetTrellisBook(bits);
  const int8_t* levels = kNarrowLevels ? book.narrow : book.wide;
  const int field = TrellisFieldBits(book.bits);
  LevelTables tables;
  tables.step = kNarrowLevels ? book.narrow_step : book.wide_step;
  for (int index = 0; index < kMaxTrellisLevels; ++index) {
    const int i = index % (2 << book.bits);
    const int m = (i & ((1 << field) - 1)) | i >> (field + 2) << field;
    const int level = levels[4 * m + (i >> field & 3)];
    tables.key_bytes[index] = static_cast<uint8_t>(level + kByteBias);
    tables.value_bytes[index] = static_cast<uint8_t>(level + kValueBias);
  }
  return tables;
}

// A cell's blocks of m (TrellisField, TrellisBit), loaded where they are used.
template <int kBits>
struct CellCodes {
  const uint8_t* at;  // the cell
  I32x16 high;        // the block of highest bits, where there is one
};
template <int kBits>
SWIVEL_INLINE CellCodes<kBits> LoadCell(const uint8_t* at) {
  if constexpr (TrellisHighBits(kBits) != 0) return {at, LoadRaw(at + 64)};
  return {at, ZeroI32()};
}
template <int kBits, int kQuad>
SWIVEL_INLINE I32x16 LoadField(const uint8_t* cell) {
  constexpr int kQuads = 8 / TrellisFieldBits(kBits);
  return LoadRaw(cell + 64 * (1 + TrellisHighBits(kBits) + kQuad / kQuads));
}

// Quad kQuad (0-7) of a cell; `subsets` holds the four fields of its half kQuad / 4, `field` the block that LoadField gives.
template <int kBits, int kQuad>
SWIVEL_INLINE I32x16 LevelsOfTrellisQuad(I32x16 subsets, I32x16 field, I32x16 high, CodeTable<kBits + 1> table) {
  constexpr int kField = TrellisFieldBits(kBits);
  constexpr int kStep = kQuad % 4;
  I32x16 index = FieldDown<2 * kStep - kField>(subsets);
  if constexpr (kField == 2) index = JoinBytes<2>(FieldDown<2 * kStep>(field), index);
  if constexpr (kField == 4) index = JoinBytes<4>(FieldDown<4 * (kQuad % 2)>(field), index);
  if constexpr (TrellisHighBits(kBits) != 0) index = JoinBytes<kField + 2>(index, FieldDown<kQuad - kField - 2>(high));
  return LookupCodes<kBits + 1>(table, index);
}

// The field block of a quad, loaded where the first quad of a block is reached.
template <int kBits, int kQuad>
SWIVEL_INLINE void NextField(const uint8_t* cell, I32x16* field) {
  if constexpr (TrellisFieldBits(kBits) != 0) {
    if constexpr (kQuad % (8 / TrellisFieldBits(kBits)) == 0) *field = LoadField<kBits, kQuad>(cell);
  }
}

// Stores the quads [kQuad, kEnd) of a cell `quad_stride` bytes apart.
template <int kBits, int kQuad, int kEnd>
SWIVEL_INLINE void StoreTrellisQuads(const CellCodes<kBits>& codes, I32x16 subsets, I32x16 field, CodeTable<kBits + 1> table, uint8_t* out,
                                     size_t quad_stride) {
  if constexpr (kQuad < kEnd) {
    NextField<kBits, kQuad>(codes.at, &field);
    StoreRaw(out, LevelsOfTrellisQuad<kBits, kQuad>(subsets, field, codes.high, table));
    StoreTrellisQuads<kBits, kQuad + 1, kEnd>(codes, subsets, field, table, out + quad_stride, quad_stride);
  }
}

// Keys: walks along the cells of 32 tokens and gives the subset fields of both tiles of each.
struct KeyPath {
  ByteTable here, before;
  I32x16 left0, left1;  // what the path bits of the last cell add to the fields of the next
};
SWIVEL_INLINE void LeaveCell(KeyPath& path, I32x16 u) {
  path.left0 = LookupBytes<4>(path.before, u);
  path.left1 = LookupBytes<4>(path.before, FieldDown<4>(u));
}
// The first cell follows the last one, a byte (the pass before) further down; byte 0 follows the start, zeros.
SWIVEL_INLINE KeyPath StartKeys(const uint8_t* part, int cells, size_t cell_bytes) {
  KeyPath path = {MakeByteTable(kSubsetTables.here), MakeByteTable(kSubsetTables.before), ZeroI32(), ZeroI32()};
  LeaveCell(path, ShiftLeft32(LoadRaw(part + (cells - 1) * cell_bytes), 8));
  return path;
}
SWIVEL_INLINE void StepKeys(KeyPath& path, const uint8_t* cell, I32x16 (&subsets)[2]) {
  const I32x16 u = LoadRaw(cell);
  subsets[0] = Xor(LookupBytes<4>(path.here, u), path.left0);
  subsets[1] = Xor(LookupBytes<4>(path.here, FieldDown<4>(u)), path.left1);
  LeaveCell(path, u);
}

// Values: the path bits of 32 tokens at cell `cell` of `cells`; those before the first are the last ones of the lane before.
SWIVEL_INLINE I32x16 ValuePath(const uint8_t* part, int cells, size_t cell_bytes, int cell) {
  if (cell >= 0) return LoadRaw(part + cell * cell_bytes);
  cell += cells;
  if (cell >= 0) return LanesUp(LoadRaw(part + cell * cell_bytes));
  return LanesUp(LanesUp(LoadRaw(part + (cell + cells) * cell_bytes)));
}

// The subset fields of a cell of values, its tokens 0-15 and 16-31, from u of the cells n, n-1, n-2, n-3.
SWIVEL_INLINE void ValueSubsets(I32x16 u, I32x16 u1, I32x16 u2, I32x16 u3, ByteTable spread0, ByteTable spread1, I32x16 (&subsets)[2]) {
  const I32x16 z1 = Xor(Xor(u, u1), u3);
  subsets[0] = Or(LookupBytes<4>(spread0, u2), LookupBytes<4>(spread1, z1));
  subsets[1] = Or(LookupBytes<4>(spread0, FieldDown<4>(u2)), LookupBytes<4>(spread1, FieldDown<4>(z1)));
}
