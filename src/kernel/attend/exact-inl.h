// Cells that are not packed: f16 rows in the model's own basis, unpacked into the float tiles that float codecs use.

// p[i * stride … + 15] = lane i of rows 0 … 15, for i = 0 … 15.
SWIVEL_INLINE void StoreTransposed16(const F32x16 (&rows)[16], float* p, size_t stride) {
  // Twice four vectors into one another: first rows r, r + 4, r + 8, r + 12, then the four results.
  alignas(64) float quads[4][64];
  SWIVEL_UNROLL for (int r = 0; r < 4; ++r) StoreInterleaved4(quads[r], rows[r], rows[r + 4], rows[r + 8], rows[r + 12]);
  SWIVEL_UNROLL for (int i = 0; i < 16; i += 4) {
    alignas(64) float lanes[64];
    StoreInterleaved4(lanes, Load(quads[0] + 4 * i), Load(quads[1] + 4 * i), Load(quads[2] + 4 * i), Load(quads[3] + 4 * i));
    SWIVEL_UNROLL for (int j = 0; j < 4; ++j) Store(p + (i + j) * stride, Load(lanes + 16 * j));
  }
}

// Float tile of keys: [width][128 tokens]. Only rows that `visible` names are read: what others hold may never have been written.
SWIVEL_INLINE void UnpackExactKeys(const uint8_t* rows, size_t row_stride, int width, Span span, TokenBits visible, float* tile) {
  for (int v = span.begin; v < span.end; ++v) {
    for (int i = 0; i < width; i += 16) {
      F32x16 block[16];
      SWIVEL_UNROLL for (int t = 0; t < 16; ++t) {
        block[t] = (visible.OfVector(v) >> t & 1) == 0 ? Zero() : LoadF16(reinterpret_cast<const uint16_t*>(rows + (16 * v + t) * row_stride) + i);
      }
      StoreTransposed16(block, tile + static_cast<size_t>(i) * kGroupTokens + 16 * v, kGroupTokens);
    }
  }
}

// Float tile of values: [128 tokens][width].
SWIVEL_INLINE void UnpackExactValues(const uint8_t* rows, size_t row_stride, int width, Span span, TokenBits visible, float* tile) {
  for (int t = 16 * span.begin; t < 16 * span.end; ++t) {
    const auto* row = reinterpret_cast<const uint16_t*>(rows + t * row_stride);
    const bool read = (visible.word[t / 64] >> (t % 64) & 1) != 0;
    for (int i = 0; i < width; i += 16) Store(tile + static_cast<size_t>(t) * width + i, read ? LoadF16(row + i) : Zero());
  }
}
