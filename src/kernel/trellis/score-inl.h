// Scores of query rows against trellis codes; the twin of score/score-inl.h, whose tiles and products it shares.

// `ahead` as in ScoreCodes: a single query may pass here too (ReadsCodesDirectly).
template <int kBits>
SWIVEL_INLINE void UnpackTrellisKeys(const uint8_t* group, int width, Span span, size_t ahead, const LevelTables& tables, uint8_t* tile) {
  const auto table = MakeCodeTable<kBits + 1>(tables.key_bytes);
  const int cells = width / 16;
  for (int v = span.begin; v < span.end; v += 2) {
    const uint8_t* part = group + v / 2 * Bytes32(kBits, width);
    KeyPath path = StartKeys(part, cells, 64 * kBits);
    for (int cell = 0; cell < cells; ++cell) {
      const CellCodes<kBits> codes = LoadCell<kBits>(part + static_cast<size_t>(cell) * 64 * kBits);
      SWIVEL_UNROLL for (int line = 0; line < kBits; ++line) Prefetch(codes.at + ahead + 64 * line);
      I32x16 subsets[2];
      StepKeys(path, codes.at, subsets);
      uint8_t* out = tile + (static_cast<size_t>(cell) * 4 * kGroupVectors + v) * 64;
      StoreTrellisQuads<kBits, 0, 4>(codes, subsets[0], ZeroI32(), table, out, kGroupVectors * 64);
      StoreTrellisQuads<kBits, 4, 8>(codes, subsets[1], ZeroI32(), table, out + 64, kGroupVectors * 64);
    }
  }
}

// Field kStep of both tiles.
template <int kBits, int kRows, int kStep = 0>
SWIVEL_INLINE void ScoreTrellisQuads(const CellCodes<kBits>& codes, const I32x16 (&subsets)[2], I32x16 field0, I32x16 field1,
                                     CodeTable<kBits + 1> table, const ByteRows& rows, int quad, I32x16 (&acc)[2][kRows]) {
  if constexpr (kStep < 4) {
    NextField<kBits, kStep>(codes.at, &field0);
    NextField<kBits, kStep + 4>(codes.at, &field1);
    const I32x16 keys0 = LevelsOfTrellisQuad<kBits, kStep>(subsets[0], field0, codes.high, table);
    const I32x16 keys1 = LevelsOfTrellisQuad<kBits, kStep + 4>(subsets[1], field1, codes.high, table);
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      const int32_t word = QueryWord(rows, r, quad + kStep);
      acc[0][r] = DotBytes(acc[0][r], keys0, word);
      acc[1][r] = DotBytes(acc[1][r], keys1, word);
    }
    ScoreTrellisQuads<kBits, kRows, kStep + 1>(codes, subsets, field0, field1, table, rows, quad, acc);
  }
}

// Scores straight from the codes; arguments as of ScoreCodes.
template <int kBits, int kRows>
SWIVEL_INLINE void ScoreTrellisCodes(const uint8_t* group, int width, Span span, size_t ahead, const LevelTables& tables, const float* scales,
                                     const ByteRows& rows, float* scores) {
  const auto table = MakeCodeTable<kBits + 1>(tables.key_bytes);
  const int cells = width / 16;
  for (int v = span.begin; v < span.end; v += 2) {
    const uint8_t* part = group + v / 2 * Bytes32(kBits, width);
    KeyPath path = StartKeys(part, cells, 64 * kBits);
    I32x16 acc[2][kRows];
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) acc[0][r] = acc[1][r] = SetI32(rows.bias[r]);
    for (int cell = 0; cell < cells; ++cell) {
      const CellCodes<kBits> codes = LoadCell<kBits>(part + static_cast<size_t>(cell) * 64 * kBits);
      SWIVEL_UNROLL for (int line = 0; line < kBits; ++line) Prefetch(codes.at + ahead + 64 * line);
      I32x16 subsets[2];
      StepKeys(path, codes.at, subsets);
      ScoreTrellisQuads<kBits, kRows>(codes, subsets, ZeroI32(), ZeroI32(), table, rows, cell * 4, acc);
    }
    SWIVEL_UNROLL for (int r = 0; r < kRows; ++r) {
      StoreScores(acc[0][r], scales + 16 * v, scores + r * kGroupTokens + 16 * v);
      StoreScores(acc[1][r], scales + 16 * v + 16, scores + r * kGroupTokens + 16 * v + 16);
    }
  }
}
