// Rotation of one row (math/rotation.h) over the vector vocabulary, bit-exact with the scalar definition: the same additions in the
// same order, only several at a time.

template <int s>
SWIVEL_INLINE F32x16 ButterflyInLane(F32x16 x) {
  // Lane i without bit s: x[i] + x[i+s]; with it: x[i-s] - x[i].
  return Add(SwapLanes<s>(x), FlipSignLanes<s>(x));
}

SWIVEL_INLINE void HadamardRow(float* row, int width, int block) {
  const F32x16 norm = Set(1.0f / std::sqrt(static_cast<float>(block)));
  for (int start = 0; start < width; start += 16) {
    F32x16 x = Load(row + start);
    x = ButterflyInLane<8>(ButterflyInLane<4>(ButterflyInLane<2>(ButterflyInLane<1>(x))));
    Store(row + start, block == 16 ? Mul(x, norm) : x);
  }
  for (int stride = 16; stride < block; stride *= 2) {
    const bool last = 2 * stride == block;
    for (int start = 0; start < width; start += 2 * stride) {
      for (int i = start; i < start + stride; i += 16) {
        const F32x16 a = Load(row + i);
        const F32x16 b = Load(row + i + stride);
        const F32x16 sum = Add(a, b);
        const F32x16 difference = Sub(a, b);
        Store(row + i, last ? Mul(sum, norm) : sum);
        Store(row + i + stride, last ? Mul(difference, norm) : difference);
      }
    }
  }
}

SWIVEL_INLINE void ReflectRow(float* row, int width, int block) {
  const int m = width / block;
  if (m == 1) return;
  const F32x16 factor = Set(2.0f / static_cast<float>(m));
  for (int i = 0; i < block; i += 16) {
    F32x16 sum = Load(row + i);
    for (int b = 1; b < m; ++b) sum = Add(sum, Load(row + i + b * block));
    const F32x16 shift = Mul(sum, factor);
    for (int b = 0; b < m; ++b) Store(row + i + b * block, Sub(Load(row + i + b * block), shift));
  }
}

SWIVEL_INLINE void SignRow(float* row, int width) {
  for (int i = 0; i < width; i += 16) Store(row + i, Mul(Load(row + i), Load(kRotationSigns.data() + i)));
}

// The same coordinate of the k-th neighbour inside blocks of 4.
template <int k>
SWIVEL_INLINE F32x16 SwapNeighbours(F32x16 x) {
  if constexpr (k == 3) {
    return SwapLanes<1>(SwapLanes<2>(x));
  } else {
    return SwapLanes<k>(x);
  }
}

template <int k, bool kInverse>
SWIVEL_INLINE F32x16 AddSwapTerm(F32x16 y, F32x16 x, const SwapMatrix& matrix, int i) {
  const F32x16 c = Load(matrix.c[k].data() + i);
  return Add(y, kInverse ? SwapNeighbours<k>(Mul(c, x)) : Mul(c, SwapNeighbours<k>(x)));
}

// Blocks of 2 or 4 (math/block_rotation.h); the width is a multiple of 16, so no block is cut.
template <bool kInverse>
SWIVEL_INLINE void SwapRow(const SwapMatrix& matrix, float* row, int width) {
  for (int i = 0; i < width; i += 16) {
    const F32x16 x = Load(row + i);
    F32x16 y = AddSwapTerm<1, kInverse>(Mul(Load(matrix.c[0].data() + i), x), x, matrix, i);
    if (matrix.terms == 4) y = AddSwapTerm<3, kInverse>(AddSwapTerm<2, kInverse>(y, x, matrix, i), x, matrix, i);
    Store(row + i, y);
  }
}

template <bool kInverse>
SWIVEL_INLINE void BlockRow(Frame frame, float* row, int width) {
  if (frame != Frame::kRotor) return SwapRow<kInverse>(SwapMatrixOf(frame), row, width);
  // Blocks of 3 lie across vectors; once a row, the scalar definition is fast enough.
  return kInverse ? InverseRotateBlocks(frame, row, width) : RotateBlocks(frame, row, width);
}

void RotateRow(Frame frame, float* row, int width) {
  if (frame == Frame::kNone) return;
  if (frame > Frame::kSignedHadamard) return BlockRow<false>(frame, row, width);
  const int block = HadamardBlock(frame, width);
  if (frame == Frame::kSignedHadamard) SignRow(row, width);
  HadamardRow(row, width, block);
  if (frame == Frame::kSignedHadamard) ReflectRow(row, width, block);
}

void InverseRotateRow(Frame frame, float* row, int width) {
  if (frame == Frame::kNone) return;
  if (frame > Frame::kSignedHadamard) return BlockRow<true>(frame, row, width);
  const int block = HadamardBlock(frame, width);
  if (frame == Frame::kSignedHadamard) ReflectRow(row, width, block);
  HadamardRow(row, width, block);
  if (frame == Frame::kSignedHadamard) SignRow(row, width);
}
