// Product of a matrix and a row, for changes of basis that are not fast rotations.

// kFused: fused multiply-add where the target has it, for queries; without it sums are the same on every target, for codes.
template <bool kFused, int kCount>
SWIVEL_INLINE void MultiplyAt(const float* columns, const float* x, int width, int i, float* y) {
  F32x16 sum[kCount];
  SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) sum[v] = Zero();
  for (int j = 0; j < width; ++j) {
    const float* column = columns + static_cast<size_t>(j) * width + i;
    const F32x16 xj = Set(x[j]);
    SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) {
      const F32x16 m = Load(column + 16 * v);
      sum[v] = kFused ? MulAdd(m, xj, sum[v]) : Add(sum[v], Mul(m, xj));
    }
  }
  SWIVEL_UNROLL for (int v = 0; v < kCount; ++v) Store(y + i + 16 * v, sum[v]);
}

template <bool kFused>
SWIVEL_INLINE void MultiplyRow(const float* columns, const float* x, int width, float* y) {
  int i = 0;
  for (; i + 64 <= width; i += 64) MultiplyAt<kFused, 4>(columns, x, width, i, y);
  for (; i < width; i += 16) MultiplyAt<kFused, 1>(columns, x, width, i, y);
}

void MultiplyExactly(const float* columns, const float* x, int width, float* y) { MultiplyRow<false>(columns, x, width, y); }
