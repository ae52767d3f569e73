// Weighted sums of trellis-coded values; the twin of accumulate/accumulate-inl.h, whose tiles and products it shares.

template <int kBits>
SWIVEL_INLINE void UnpackTrellisValues(const uint8_t* group, int width, Span span, size_t ahead, const LevelTables& tables, uint8_t* tile) {
  const auto table = MakeCodeTable<kBits + 1>(tables.value_bytes);
  const ByteTable spread0 = MakeByteTable(kSubsetTables.z0);
  const ByteTable spread1 = MakeByteTable(kSubsetTables.z1);
  constexpr size_t kCell = 64 * kBits;
  const int cells = width / 16;
  for (int t = span.begin / 2; t < span.end / 2; ++t) {
    const uint8_t* part = group + t * Bytes32(kBits, width);
    I32x16 u1 = ValuePath(part, cells, kCell, -1);
    I32x16 u2 = ValuePath(part, cells, kCell, -2);
    I32x16 u3 = ValuePath(part, cells, kCell, -3);
    for (int cell = 0; cell < cells; ++cell) {
      const CellCodes<kBits> codes = LoadCell<kBits>(part + cell * kCell);
      SWIVEL_UNROLL for (int line = 0; line < kBits; ++line) Prefetch(codes.at + ahead + 64 * line);
      const I32x16 u = LoadRaw(codes.at);
      I32x16 subsets[2];
      ValueSubsets(u, u1, u2, u3, spread0, spread1, subsets);
      u3 = u2;
      u2 = u1;
      u1 = u;
      uint8_t* out = tile + (static_cast<size_t>(8 * t) * width + 16 * cell) * 4;
      const size_t stride = static_cast<size_t>(width) * 4;
      StoreTrellisQuads<kBits, 0, 4>(codes, subsets[0], ZeroI32(), table, out, stride);
      StoreTrellisQuads<kBits, 4, 8>(codes, subsets[1], ZeroI32(), table, out + 4 * stride, stride);
    }
  }
}

// Quad kQuad of kCount neighbouring cells; `quad` counts from the group's first token.
template <int kBits, int kRows, int kCount, int kQuad = 0>
SWIVEL_INLINE void AccumulateTrellisQuads(const CellCodes<kBits> (&codes)[kCount], const I32x16 (&subsets)[kCount][2], I32x16 (&field)[kCount],
                                          CodeTable<kBits + 1> table, const uint8_t* next, const uint8_t* weights, int quad,
                                          I32x16 (&acc)[kRows][kCount]) {
  if constexpr (kQuad < 8) {
    // The lines of `next` are dealt out to the quads.
    constexpr int kLines = kBits * kCount;
    SWIVEL_UNROLL for (int line = kLines * kQuad / 8; line < kLines * (kQuad + 1) / 8; ++line) Prefetch(next + 64 * line);
    I32x16 values[kCount];
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) {
      NextField<kBits, kQuad>(codes[c].at, &field[c]);
      values[c] = LevelsOfTrellisQuad<kBits, kQuad>(subsets[c][kQuad / 4], field[c], codes[c].high, table);
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = WeightWord(weights, r, quad + kQuad);
      SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) acc[r][c] = DotWeights(acc[r][c], values[c], word);
    }
    AccumulateTrellisQuads<kBits, kRows, kCount, kQuad + 1>(codes, subsets, field, table, next, weights, quad, acc);
  }
}

template <int kBits, int kRows, int kCount>
SWIVEL_INLINE void AccumulateTrellisAt(const uint8_t* group, int width, Span span, size_t ahead, int cell, CodeTable<kBits + 1> table,
                                       const WeightRows& rows, float* out) {
  constexpr size_t kCell = 64 * kBits;
  const ByteTable spread0 = MakeByteTable(kSubsetTables.z0);
  const ByteTable spread1 = MakeByteTable(kSubsetTables.z1);
  const int cells = width / 16;
  I32x16 acc[kRows][kCount];
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) acc[r][c] = kValueBias == 0 ? ZeroI32() : SetI32(rows.bias[r]);
  }
  for (int t = span.begin / 2; t < span.end / 2; ++t) {
    const uint8_t* part = group + t * Bytes32(kBits, width);
    const uint8_t* next = group + ahead + (static_cast<size_t>(cell) * 4 + t * kCount) * kCell;
    CellCodes<kBits> codes[kCount];
    I32x16 subsets[kCount][2];
    I32x16 field[kCount];
    I32x16 u1 = ValuePath(part, cells, kCell, cell - 1);
    I32x16 u2 = ValuePath(part, cells, kCell, cell - 2);
    I32x16 u3 = ValuePath(part, cells, kCell, cell - 3);
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) {
      codes[c] = LoadCell<kBits>(part + (cell + c) * kCell);
      const I32x16 u = LoadRaw(codes[c].at);
      ValueSubsets(u, u1, u2, u3, spread0, spread1, subsets[c]);
      u3 = u2;
      u2 = u1;
      u1 = u;
      field[c] = ZeroI32();
    }
    AccumulateTrellisQuads<kBits, kRows, kCount>(codes, subsets, field, table, next, rows.bytes, 8 * t, acc);
  }
  SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
    SWIVEL_UNROLL for (int c = 0; c < kCount; ++c) {
      AddToRow(out + static_cast<size_t>(r) * width + 16 * (cell + c), acc[r][c], rows.step[r], rows.keep[r]);
    }
  }
}

// Straight from the codes; arguments as of AccumulateCodes.
template <int kBits, int kRows>
SWIVEL_INLINE void AccumulateTrellisCodes(const uint8_t* group, int width, Span span, size_t ahead, const LevelTables& tables,
                                          const WeightRows& rows, float* out) {
  const auto table = MakeCodeTable<kBits + 1>(tables.value_bytes);
  const int cells = width / 16;
  int cell = 0;
  for (; cell + 2 <= cells; cell += 2) AccumulateTrellisAt<kBits, kRows, 2>(group, width, span, ahead, cell, table, rows, out);
  if (cell < cells) AccumulateTrellisAt<kBits, kRows, 1>(group, width, span, ahead, cell, table, rows, out);
}
