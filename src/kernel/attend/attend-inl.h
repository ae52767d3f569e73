// Attention over packed cells: the loop over chunks, the online softmax, the merge of splits. See attend.h for the definition.

// e^x for x <= 0; 0 below -87. Polynomial for 2^f on [-1/2, 1/2] (minimax, relative error 2e-7).
SWIVEL_INLINE F32x16 ExpNegative(F32x16 x) {
  const F32x16 floor = Set(-87.0f);
  const uint32_t vanished = LessBits(x, floor);
  const F32x16 t = Mul(Max(x, floor), Set(1.44269504f));
  const F32x16 whole = Round(t);
  const F32x16 f = Sub(t, whole);
  F32x16 p = Set(1.33335581e-3f);
  p = MulAdd(p, f, Set(9.61812910e-3f));
  p = MulAdd(p, f, Set(5.55041087e-2f));
  p = MulAdd(p, f, Set(2.40226507e-1f));
  p = MulAdd(p, f, Set(6.93147182e-1f));
  p = MulAdd(p, f, Set(1.0f));
  return SelectBits(vanished, Zero(), ScalePow2(p, whole));
}

// tanh x = sign(x) (1 - e) / (1 + e), e = e^(-2|x|).
SWIVEL_INLINE F32x16 Tanh(F32x16 x) {
  const F32x16 e = ExpNegative(Mul(Abs(x), Set(-2.0f)));
  const F32x16 magnitude = Div(Sub(Set(1.0f), e), Add(Set(1.0f), e));
  return SelectBits(LessBits(x, Zero()), Sub(Zero(), magnitude), magnitude);
}

// One thread's working memory, carved out of AttendPlan::thread_bytes.
struct Scratch {
  uint8_t* key_tile;      // 64 cells: bytes or floats
  uint8_t* value_tile;    // 64 cells: bytes or floats
  int8_t* q_bytes;        // [rows][key width] when keys are table codes …
  float* q_floats;        // … else this
  float* out;             // [rows][value width], in the codec's frame, not yet divided by the sum
  float* max;             // [rows]
  float* sum;             // [rows]
  float* factor;          // [rows] turns raw scores into logits
  int32_t* bias;          // [rows]
  uint64_t* visible;      // [rows] bits of the current chunk
  const uint16_t** mask;  // [rows] mask of the current chunk, 64 values
  float* key_scales;      // [64]
  float* value_scales;    // [64]
  float* scores;          // [kRowBlock][64] logits, then weights
  uint8_t* weights;       // [kRowBlock][64] the same as bytes
  uint16_t* mask_tail;    // [64]: the last, incomplete chunk of a mask row
};

SWIVEL_INLINE Scratch CarveScratch(const AttendPlan& plan, int thread) {
  uint8_t* at = plan.scratch + plan.thread_bytes * thread;
  const auto take = [&at](size_t bytes) {
    uint8_t* taken = at;
    at += (bytes + 63) / 64 * 64;
    return taken;
  };
  const size_t rows = static_cast<size_t>(plan.group_heads) * plan.block_queries;
  const size_t k_width = plan.args.k.width;
  const size_t v_width = plan.args.v.width;
  Scratch s;
  s.key_tile = take(kChunk * k_width * sizeof(float));
  s.value_tile = take(kChunk * v_width * sizeof(float));
  s.q_floats = reinterpret_cast<float*>(take(rows * k_width * sizeof(float)));
  s.q_bytes = reinterpret_cast<int8_t*>(s.q_floats);
  s.out = reinterpret_cast<float*>(take(rows * v_width * sizeof(float)));
  s.max = reinterpret_cast<float*>(take(rows * sizeof(float)));
  s.sum = reinterpret_cast<float*>(take(rows * sizeof(float)));
  s.factor = reinterpret_cast<float*>(take(rows * sizeof(float)));
  s.bias = reinterpret_cast<int32_t*>(take(rows * sizeof(int32_t)));
  s.visible = reinterpret_cast<uint64_t*>(take(rows * sizeof(uint64_t)));
  s.mask = reinterpret_cast<const uint16_t**>(take(rows * sizeof(uint16_t*)));
  s.key_scales = reinterpret_cast<float*>(take(kChunk * sizeof(float)));
  s.value_scales = reinterpret_cast<float*>(take(kChunk * sizeof(float)));
  s.scores = reinterpret_cast<float*>(take(kRowBlock * kChunk * sizeof(float)));
  s.weights = take(kRowBlock * kChunk);
  s.mask_tail = reinterpret_cast<uint16_t*>(take(kChunk * sizeof(uint16_t)));
  return s;
}

// What one work item covers.
struct Item {
  int64_t index, block;
  int stream, kv_head, first_query, num_queries, num_rows;
  int64_t first_cell, end_cell;
};

SWIVEL_INLINE Item MakeItem(const AttendPlan& plan, int64_t index) {
  Item item;
  item.index = index;
  item.block = index / plan.num_splits;
  const int64_t split = index % plan.num_splits;
  const int64_t query_block = item.block % plan.num_query_blocks;
  const int64_t head = item.block / plan.num_query_blocks;
  item.kv_head = static_cast<int>(head % plan.args.num_kv_heads);
  item.stream = static_cast<int>(head / plan.args.num_kv_heads);
  item.first_query = static_cast<int>(query_block) * plan.block_queries;
  item.num_queries = std::min(plan.block_queries, plan.args.num_queries - item.first_query);
  item.num_rows = item.num_queries * plan.group_heads;
  item.first_cell = split * plan.split_cells;
  item.end_cell = std::min(item.first_cell + plan.split_cells, plan.args.num_cells);
  return item;
}

SWIVEL_INLINE int HeadOfRow(const AttendPlan& plan, const Item& item, int row) { return item.kv_head * plan.group_heads + row % plan.group_heads; }
SWIVEL_INLINE int QueryOfRow(const AttendPlan& plan, const Item& item, int row) { return item.first_query + row / plan.group_heads; }

// The ALiBi slope of a head (Press et al. 2021, as ggml computes it); 1 without ALiBi.
SWIVEL_INLINE float Slope(const AttendArgs& args, int head) {
  if (args.max_bias <= 0.0f) return 1.0f;
  const int power = std::bit_floor(static_cast<unsigned>(args.num_heads));
  if (head < power) return std::pow(std::exp2(-args.max_bias / power), static_cast<float>(head + 1));
  return std::pow(std::exp2(-args.max_bias / 2.0f / power), static_cast<float>(2 * (head - power) + 1));
}

// Rotates the query of each row into the codec's frame and rounds it to bytes where the scores are integers (one scale a row).
SWIVEL_INLINE void PrepareRows(const AttendPlan& plan, const Item& item, const LevelTables& tables, Scratch& s) {
  const AttendArgs& args = plan.args;
  const int width = args.k.width;
  const bool integer = args.k.codec->layout == Layout::kPlanes;
  alignas(64) float rotated[kMaxHeadWidth];
  for (int row = 0; row < item.num_rows; ++row) {
    const char* q = reinterpret_cast<const char*>(args.q) + item.stream * args.q_stream_stride + HeadOfRow(plan, item, row) * args.q_head_stride +
                    QueryOfRow(plan, item, row) * args.q_query_stride;
    float* target = integer ? rotated : s.q_floats + static_cast<size_t>(row) * width;
    std::memcpy(target, q, width * sizeof(float));
    RotateRow(args.k.codec->frame(Side::kKey), target, width);
    F32x16 largest16 = Zero();
    F32x16 not_finite16 = Zero();
    for (int i = 0; i < width; i += 16) {
      largest16 = Max(largest16, Abs(Load(target + i)));
      not_finite16 = Add(not_finite16, Mul(Load(target + i), Zero()));
    }
    const bool finite = ReduceAdd(not_finite16) == 0.0f;
    s.max[row] = -std::numeric_limits<float>::infinity();
    s.sum[row] = finite ? 0.0f : std::numeric_limits<float>::quiet_NaN();  // a NaN sum stays NaN to the end
    s.factor[row] = args.scale;
    s.bias[row] = 0;
    if (!integer) continue;
    const float largest = finite ? ReduceMax(largest16) : 0.0f;
    const F32x16 to_bytes = Set(largest > 0.0f ? 127.0f / largest : 0.0f);
    int8_t* bytes = s.q_bytes + static_cast<size_t>(row) * width;
    for (int i = 0; i < width; i += 16) StoreBytes(bytes + i, finite ? Mul(Load(rotated + i), to_bytes) : Zero());
    s.factor[row] = args.scale * (largest / 127.0f) * tables.step;
    if (kByteBias != 0) {
      int32_t total = 0;
      for (int i = 0; i < width; ++i) total += bytes[i];
      s.bias[row] = kByteBias * total;
    }
  }
  std::memset(s.out, 0, static_cast<size_t>(item.num_rows) * args.v.width * sizeof(float));
}

// Finds for every row which of the 64 cells from `cell` on it sees; false when no row sees any.
SWIVEL_INLINE bool FindVisible(const AttendPlan& plan, const Item& item, int64_t cell, Scratch& s) {
  const AttendArgs& args = plan.args;
  const int64_t left = item.end_cell - cell;
  const uint64_t in_range = left >= kChunk ? ~uint64_t{0} : (uint64_t{1} << left) - 1;
  uint64_t any = 0;
  for (int row = 0; row < item.num_rows; ++row) {
    if (args.mask == nullptr) {
      s.visible[row] = in_range;
      any |= in_range;
      continue;
    }
    if (row % plan.group_heads != 0 && args.mask_head_stride == 0) {
      s.visible[row] = s.visible[row - 1];
      s.mask[row] = s.mask[row - 1];
      continue;
    }
    const char* base = reinterpret_cast<const char*>(args.mask) + item.stream * args.mask_stream_stride +
                       HeadOfRow(plan, item, row) * args.mask_head_stride + QueryOfRow(plan, item, row) * args.mask_query_stride;
    const uint16_t* mask = reinterpret_cast<const uint16_t*>(base) + cell;
    s.mask[row] = mask;
    if (left >= kChunk) {
      s.visible[row] = NotMinusInf64(mask);
    } else {
      s.visible[row] = 0;
      for (int64_t i = 0; i < left; ++i) s.visible[row] |= static_cast<uint64_t>(mask[i] != 0xfc00) << i;
    }
    any |= s.visible[row];
  }
  return any != 0;
}

// A chunk of 64 cells of one KV head.
struct Chunk {
  const uint8_t* keys;    // its group
  const uint8_t* values;
  int half;               // which half of the group
  int64_t num_cells;      // of the 64 that belong to the item
  uint64_t poison;        // a bit for each cell that is NaN in K or V
  bool direct;            // few rows: codes are read where they are, not unpacked
};

SWIVEL_INLINE Chunk LocateChunk(const AttendPlan& plan, const Item& item, int64_t cell) {
  const KvView& k = plan.args.k;
  const KvView& v = plan.args.v;
  const int64_t group = cell / kGroupTokens;
  const int stream = plan.args.first_stream + item.stream;
  Chunk chunk;
  chunk.keys = k.base + stream * k.stream_stride + group * k.group_stride + item.kv_head * k.head_stride;
  chunk.values = v.base + stream * v.stream_stride + group * v.group_stride + item.kv_head * v.head_stride;
  chunk.half = static_cast<int>(cell % kGroupTokens) / kChunk;
  chunk.num_cells = std::min<int64_t>(item.end_cell - cell, kChunk);
  chunk.poison = 0;
  chunk.direct = item.num_rows <= kRowBlock;
  return chunk;
}

SWIVEL_INLINE void UnpackChunk(const AttendPlan& plan, const LevelTables& k_tables, const LevelTables& v_tables, Chunk& chunk, Scratch& s) {
  const KvView& k = plan.args.k;
  const KvView& v = plan.args.v;
  if (k.codec->layout == Layout::kPlanes) {
    const ByteTable table = MakeByteTable(k_tables.key_bytes);
    if (!chunk.direct) {
      if (k.codec->code_bits == 2) UnpackKeyCodes<2>(chunk.keys, k.width, chunk.half, table, s.key_tile);
      if (k.codec->code_bits == 3) UnpackKeyCodes<3>(chunk.keys, k.width, chunk.half, table, s.key_tile);
      if (k.codec->code_bits == 4) UnpackKeyCodes<4>(chunk.keys, k.width, chunk.half, table, s.key_tile);
    }
    chunk.poison |= LoadScales(chunk.keys, k.codec->code_bits, k.width, chunk.half, s.key_scales);
  } else {
    chunk.poison |= UnpackKeyFloats(*k.codec, chunk.keys, k.width, chunk.half, reinterpret_cast<float*>(s.key_tile));
  }
  if (v.codec->layout == Layout::kPlanes) {
    const ByteTable table = MakeByteTable(v_tables.value_bytes);
    if (!chunk.direct) {
      if (v.codec->code_bits == 2) UnpackValueCodes<2>(chunk.values, v.width, chunk.half, table, s.value_tile);
      if (v.codec->code_bits == 3) UnpackValueCodes<3>(chunk.values, v.width, chunk.half, table, s.value_tile);
      if (v.codec->code_bits == 4) UnpackValueCodes<4>(chunk.values, v.width, chunk.half, table, s.value_tile);
    }
    chunk.poison |= LoadScales(chunk.values, v.codec->code_bits, v.width, chunk.half, s.value_scales);
  } else {
    chunk.poison |= UnpackValueFloats(*v.codec, chunk.values, v.width, chunk.half, reinterpret_cast<float*>(s.value_tile));
  }
}

// Turns a row's raw scores into weights e^(s - max) in place; returns the factor that the row's earlier sums are to be multiplied by.
SWIVEL_INLINE float SoftmaxRow(const AttendPlan& plan, const Item& item, int row, uint64_t poison, const uint16_t* mask, float* scores, Scratch& s) {
  const AttendArgs& args = plan.args;
  const uint64_t visible = s.visible[row];
  if (visible == 0) {
    std::memset(scores, 0, kChunk * sizeof(float));
    return 1.0f;
  }
  const F32x16 minus_inf = Set(-std::numeric_limits<float>::infinity());
  F32x16 logits[kChunkVectors];
  F32x16 largest16 = minus_inf;
  const F32x16 slope = Set(Slope(args, HeadOfRow(plan, item, row)));
  for (int v = 0; v < kChunkVectors; ++v) {
    F32x16 x = Load(scores + 16 * v);
    if (args.logit_softcap > 0.0f) x = Mul(Tanh(Mul(x, Set(1.0f / args.logit_softcap))), Set(args.logit_softcap));
    if (mask != nullptr) x = MulAdd(LoadF16(mask + 16 * v), slope, x);
    logits[v] = SelectBits(static_cast<uint32_t>(visible >> (16 * v)) & 0xffffu, x, minus_inf);
    largest16 = Max(largest16, logits[v]);
  }
  const float largest = std::max(s.max[row], ReduceMax(largest16));
  const float keep = std::exp(s.max[row] - largest);  // 0 for the first visible chunk: max is -inf
  s.max[row] = largest;
  const F32x16 offset = Set(largest);
  F32x16 sum16 = Zero();
  for (int v = 0; v < kChunkVectors; ++v) {
    const F32x16 weight = ExpNegative(Sub(logits[v], offset));
    Store(scores + 16 * v, weight);
    sum16 = Add(sum16, weight);
  }
  s.sum[row] = s.sum[row] * keep + ReduceAdd(sum16);
  if ((visible & poison) != 0) s.sum[row] = std::numeric_limits<float>::quiet_NaN();
  return keep;
}

template <int kRows>
SWIVEL_INLINE void ScoreRows(const AttendPlan& plan, int row, const Chunk& chunk, const LevelTables& tables, Scratch& s) {
  const KvView& k = plan.args.k;
  if (k.codec->layout != Layout::kPlanes) {
    ScoreFloats<kRows>(reinterpret_cast<const float*>(s.key_tile), k.width, s.q_floats + static_cast<size_t>(row) * k.width, k.width, s.factor + row,
                       s.scores);
    return;
  }
  const ByteRows rows = {s.q_bytes + static_cast<size_t>(row) * k.width, static_cast<size_t>(k.width), s.factor + row, s.bias + row};
  if (!chunk.direct) return ScoreBytes<kRows>(s.key_tile, k.width, s.key_scales, rows, s.scores);
  const ByteTable table = MakeByteTable(tables.key_bytes);
  if (k.codec->code_bits == 2) ScoreCodes<2, kRows>(chunk.keys, k.width, chunk.half, table, s.key_scales, rows, s.scores);
  if (k.codec->code_bits == 3) ScoreCodes<3, kRows>(chunk.keys, k.width, chunk.half, table, s.key_scales, rows, s.scores);
  if (k.codec->code_bits == 4) ScoreCodes<4, kRows>(chunk.keys, k.width, chunk.half, table, s.key_scales, rows, s.scores);
}

template <int kRows>
SWIVEL_INLINE void AccumulateRows(const AttendPlan& plan, int row, const Chunk& chunk, const LevelTables& tables, const float* keep, Scratch& s) {
  const KvView& v = plan.args.v;
  float* out = s.out + static_cast<size_t>(row) * v.width;
  if (v.codec->layout != Layout::kPlanes) {
    return AccumulateFloats<kRows>(reinterpret_cast<const float*>(s.value_tile), v.width, s.scores, keep, out);
  }
  float step[kRows];
  for (int r = 0; r < kRows; ++r) step[r] = QuantizeWeights(s.scores + r * kChunk, s.value_scales, s.weights + r * kChunk) * tables.step;
  if (!chunk.direct) return AccumulateBytes<kRows>(s.value_tile, v.width, s.weights, keep, step, out);
  const ByteTable table = MakeByteTable(tables.value_bytes);
  if (v.codec->code_bits == 2) AccumulateCodes<2, kRows>(chunk.values, v.width, chunk.half, table, s.weights, keep, step, out);
  if (v.codec->code_bits == 3) AccumulateCodes<3, kRows>(chunk.values, v.width, chunk.half, table, s.weights, keep, step, out);
  if (v.codec->code_bits == 4) AccumulateCodes<4, kRows>(chunk.values, v.width, chunk.half, table, s.weights, keep, step, out);
}

// Not inlined into its callers: one copy for each number of rows is enough code.
template <int kRows>
void AttendRows(const AttendPlan& plan, const Item& item, int row, const Chunk& chunk, const LevelTables& k_tables, const LevelTables& v_tables,
                Scratch& s) {
  ScoreRows<kRows>(plan, row, chunk, k_tables, s);
  float keep[kRows];
  for (int r = 0; r < kRows; ++r) {
    const uint16_t* mask = plan.args.mask != nullptr ? s.mask[row + r] : nullptr;
    if (mask != nullptr && chunk.num_cells < kChunk) {
      // Reading 64 values would run past the end of the row.
      std::memset(s.mask_tail, 0, kChunk * sizeof(uint16_t));
      std::memcpy(s.mask_tail, mask, chunk.num_cells * sizeof(uint16_t));
      mask = s.mask_tail;
    }
    keep[r] = SoftmaxRow(plan, item, row + r, chunk.poison, mask, s.scores + r * kChunk, s);
  }
  AccumulateRows<kRows>(plan, row, chunk, v_tables, keep, s);
}

template <int kRows>
SWIVEL_INLINE void AttendRowsUpTo(int rows, const AttendPlan& plan, const Item& item, int row, const Chunk& chunk, const LevelTables& k_tables,
                                  const LevelTables& v_tables, Scratch& s) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return AttendRowsUpTo<kRows - 1>(rows, plan, item, row, chunk, k_tables, v_tables, s);
  }
  AttendRows<kRows>(plan, item, row, chunk, k_tables, v_tables, s);
}

// Divides a row by its sum, rotates it back and writes it out.
SWIVEL_INLINE void WriteRow(const AttendPlan& plan, const Item& item, int row, float max, float sum, float* values) {
  const AttendArgs& args = plan.args;
  const int head = HeadOfRow(plan, item, row);
  if (args.sinks != nullptr && sum > 0.0f) {
    // A sink is one more logit without a value; the sum is relative to `max`, so only the divisor changes.
    const float sink = args.sinks[head];
    if (sink > max) {
      const float shrink = std::exp(max - sink);
      sum = sum * shrink + 1.0f;
      for (int i = 0; i < args.v.width; ++i) values[i] *= shrink;
    } else {
      sum += std::exp(sink - max);
    }
  }
  const F32x16 inverse = Set(sum == 0.0f ? 0.0f : 1.0f / sum);  // no visible cell: zeros
  for (int i = 0; i < args.v.width; i += 16) Store(values + i, Mul(Load(values + i), inverse));
  InverseRotateRow(args.v.codec->frame(Side::kValue), values, args.v.width);
  char* out = reinterpret_cast<char*>(args.out) + item.stream * args.out_stream_stride + head * args.out_head_stride +
              QueryOfRow(plan, item, row) * args.out_query_stride;
  std::memcpy(out, values, args.v.width * sizeof(float));
}

// A partial result: [rows] maxima, [rows] sums, [rows][value width] sums of weighted values.
SWIVEL_INLINE void SavePartial(const AttendPlan& plan, const Item& item, const Scratch& s) {
  float* partial = plan.partials + plan.partial_floats * item.index;
  const size_t rows = item.num_rows;
  std::memcpy(partial, s.max, rows * sizeof(float));
  std::memcpy(partial + rows, s.sum, rows * sizeof(float));
  std::memcpy(partial + 2 * rows, s.out, rows * plan.args.v.width * sizeof(float));
}

// Merges the splits of a block in order (FlashDecoding: out = sum_z e^(m_z - m) out_z, sum likewise).
SWIVEL_INLINE void MergeSplits(const AttendPlan& plan, const Item& item, Scratch& s) {
  const int width = plan.args.v.width;
  const size_t rows = item.num_rows;
  for (int row = 0; row < item.num_rows; ++row) {
    float* out = s.out;
    float max = -std::numeric_limits<float>::infinity();
    for (int z = 0; z < plan.num_splits; ++z) {
      max = std::max(max, plan.partials[plan.partial_floats * (item.block * plan.num_splits + z) + row]);
    }
    float sum = 0.0f;
    for (int i = 0; i < width; i += 16) Store(out + i, Zero());
    for (int z = 0; z < plan.num_splits; ++z) {
      const float* partial = plan.partials + plan.partial_floats * (item.block * plan.num_splits + z);
      const float part_sum = partial[rows + row];
      if (part_sum == 0.0f) continue;  // saw nothing: its maximum is -inf
      const float weight = std::isnan(part_sum) ? part_sum : std::exp(partial[row] - max);
      sum += part_sum * weight;
      const float* values = partial + 2 * rows + static_cast<size_t>(row) * width;
      for (int i = 0; i < width; i += 16) Store(out + i, MulAdd(Load(values + i), Set(weight), Load(out + i)));
    }
    WriteRow(plan, item, row, max, sum, out);
  }
}

void AttendItem(AttendPlan& plan, const Item& item, const LevelTables& k_tables, const LevelTables& v_tables, Scratch& s) {
  PrepareRows(plan, item, k_tables, s);
  for (int64_t cell = item.first_cell; cell < item.end_cell; cell += kChunk) {
    if (!FindVisible(plan, item, cell, s)) continue;
    Chunk chunk = LocateChunk(plan, item, cell);
    UnpackChunk(plan, k_tables, v_tables, chunk, s);
    for (int row = 0; row < item.num_rows; row += kRowBlock) {
      const int rows = std::min(kRowBlock, item.num_rows - row);
      uint64_t any = 0;
      for (int r = 0; r < rows; ++r) any |= s.visible[row + r];
      if (any != 0) AttendRowsUpTo<kRowBlock>(rows, plan, item, row, chunk, k_tables, v_tables, s);
    }
  }
  if (plan.num_splits == 1) {
    for (int row = 0; row < item.num_rows; ++row) WriteRow(plan, item, row, s.max[row], s.sum[row], s.out + static_cast<size_t>(row) * plan.args.v.width);
    return;
  }
  SavePartial(plan, item, s);
  // Release our partial; whoever comes last acquires all of them.
  if (plan.splits_done[item.block].fetch_add(1, std::memory_order_acq_rel) == plan.num_splits - 1) MergeSplits(plan, item, s);
}

void AttendThread(AttendPlan& plan, int thread, int /*num_threads*/) {
  Scratch s = CarveScratch(plan, thread);
  LevelTables k_tables = {};
  LevelTables v_tables = {};
  if (plan.args.k.codec->layout == Layout::kPlanes) k_tables = MakeLevelTables(*plan.args.k.codec);
  if (plan.args.v.codec->layout == Layout::kPlanes) v_tables = MakeLevelTables(*plan.args.v.codec);
  for (;;) {
    const int64_t index = plan.next_item->fetch_add(1, std::memory_order_relaxed);
    if (index >= plan.num_items) return;
    AttendItem(plan, MakeItem(plan, index), k_tables, v_tables, s);
  }
}
