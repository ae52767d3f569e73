// Attention over packed cells: a work item walks over the groups of its cells; for each, all rows are scored and turned into weights, then
// all rows accumulate, so that one tile at a time has to stay in the caches. See attend.h for the definition.

// A group of 128 cells of one KV head.
struct Group {
  const uint8_t* keys;
  const uint8_t* values;
  size_t keys_ahead, values_ahead;  // from here to the group that this item reads next; 0: it is the last
  Span span;                        // what any row sees
  TokenBits poison;                 // a bit for each cell that is NaN in K or V
  bool direct;                      // few rows: codes are read where they are, not unpacked
};

// 128 mask values of a row from `cell` on. A row that ends within them is copied: reading on would leave the tensor.
SWIVEL_INLINE const uint16_t* MaskValues(const uint16_t* mask, int64_t left, uint16_t* tail) {
  if (left >= kGroupTokens) return mask;
  for (int i = 0; i < kGroupTokens; ++i) tail[i] = i < left ? mask[i] : 0xfc00;
  return tail;
}

// Finds what every row sees of the group at `cell`; false when no row sees any.
SWIVEL_INLINE bool FindVisible(const AttendPlan& plan, const Item& item, int64_t cell, Scratch& s, Group* group) {
  const AttendArgs& args = plan.args;
  const int64_t left = item.end_cell - cell;
  TokenBits any;
  for (int row = 0; row < item.num_rows; ++row) {
    RowMask& mask = s.mask[row];
    const bool first_of_query = row % plan.group_heads == 0 || args.mask_head_stride != 0;
    if (!first_of_query || (args.mask == nullptr && row != 0)) {
      mask = s.mask[row - 1];
      continue;
    }
    mask.values = nullptr;
    if (args.mask == nullptr) {
      for (int w = 0; w < 2; ++w) {
        const int64_t in_word = left - 64 * w;
        mask.visible.word[w] = in_word >= 64 ? ~uint64_t{0} : in_word <= 0 ? 0 : (uint64_t{1} << in_word) - 1;
      }
    } else {
      const char* base = reinterpret_cast<const char*>(args.mask) + item.stream * args.mask_stream_stride +
                         HeadOfRow(plan, item, row) * args.mask_head_stride + QueryOfRow(plan, item, row) * args.mask_query_stride;
      const uint16_t* values = MaskValues(reinterpret_cast<const uint16_t*>(base) + cell, left, s.mask_tails + row * kGroupTokens);
      for (int w = 0; w < 2; ++w) {
        mask.visible.word[w] = ~EqualBits64(values + 64 * w, 0xfc00);
        if ((mask.visible.word[w] & ~EqualBits64(values + 64 * w, 0)) != 0) mask.values = values;
      }
    }
    for (int w = 0; w < 2; ++w) any.word[w] |= mask.visible.word[w];
  }
  if (!any.Any()) return false;
  const bool codes = ReadsCodesDirectly(*args.k.codec) && ReadsCodesDirectly(*args.v.codec);
  const int step = group->direct && codes ? 2 : std::max(2, kVectorBlock);  // tiles are read kVectorBlock vectors at a time
  const int first = any.word[0] != 0 ? std::countr_zero(any.word[0]) : 64 + std::countr_zero(any.word[1]);
  const int end = any.word[1] != 0 ? 128 - std::countl_zero(any.word[1]) : 64 - std::countl_zero(any.word[0]);
  group->span = {first / (16 * step) * step, (end + 16 * step - 1) / (16 * step) * step};
  return true;
}

SWIVEL_INLINE Group LocateGroup(const AttendPlan& plan, const Item& item, int64_t cell) {
  const KvView& k = plan.args.k;
  const KvView& v = plan.args.v;
  const int64_t index = cell / kGroupTokens;
  const int stream = plan.args.first_stream + item.stream;
  const bool last = cell + kGroupTokens >= item.end_cell;
  Group group = {};
  group.keys = k.base + stream * k.stream_stride + index * k.group_stride + item.kv_head * k.head_stride;
  group.values = v.base + stream * v.stream_stride + index * v.group_stride + item.kv_head * v.head_stride;
  group.keys_ahead = last ? 0 : k.group_stride;
  group.values_ahead = last ? 0 : v.group_stride;
  group.direct = item.num_rows <= kRowBlock;
  return group;
}

// Whether a side's codes are read where they are.
SWIVEL_INLINE bool IsDirect(const Group& group, const Codec& codec) { return group.direct && ReadsCodesDirectly(codec); }

// What many rows read instead of the codes.
SWIVEL_INLINE void UnpackKeyBytes(const KvView& k, const LevelTables& tables, const Group& group, uint8_t* tile) {
  if (k.codec->layout == Layout::kTrellis) {
    return WithTrellisBits(k.codec->code_bits, [&]<int kBits>() {
      UnpackTrellisKeys<kBits>(group.keys, k.width, group.span, group.keys_ahead, tables, tile);
    });
  }
  const ByteTable table = MakeByteTable(tables.key_bytes);
  WithBits(k.codec->code_bits, [&]<int kBits>() { UnpackKeyCodes<kBits>(group.keys, k.width, group.span, table, tile); });
}

SWIVEL_INLINE void UnpackValueBytes(const KvView& v, const LevelTables& tables, const Group& group, uint8_t* tile) {
  if (v.codec->layout == Layout::kTrellis) {
    return WithTrellisBits(v.codec->code_bits, [&]<int kBits>() {
      UnpackTrellisValues<kBits>(group.values, v.width, group.span, group.values_ahead, tables, tile);
    });
  }
  const ByteTable table = MakeByteTable(tables.value_bytes);
  WithBits(v.codec->code_bits, [&]<int kBits>() { UnpackValueCodes<kBits>(group.values, v.width, group.span, table, tile); });
}

SWIVEL_INLINE void UnpackKeys(const KvView& k, const LevelTables& tables, Group& group, Scratch& s) {
  if (!k.codec->has_integer_kernels()) {
    return UnpackKeyFloats(*k.codec, group.keys, k.width, group.span, reinterpret_cast<float*>(s.key_tile), &group.poison);
  }
  if (!IsDirect(group, *k.codec)) UnpackKeyBytes(k, tables, group, s.key_tile);
  LoadScales(group.keys, k.codec->code_bits, k.width, group.span, group.keys_ahead, s.key_scales, &group.poison);
}

SWIVEL_INLINE void UnpackValues(const KvView& v, const LevelTables& tables, Group& group, Scratch& s) {
  if (!v.codec->has_integer_kernels()) {
    return UnpackValueFloats(*v.codec, group.values, v.width, group.span, reinterpret_cast<float*>(s.value_tile), &group.poison);
  }
  if (!IsDirect(group, *v.codec)) UnpackValueBytes(v, tables, group, s.value_tile);
  // Scales outside the span meet weights of 0, but 0 times what is left in the scratch must not be NaN.
  if (group.span.begin != 0 || group.span.end != kGroupVectors) std::memset(s.value_scales, 0, kGroupTokens * sizeof(float));
  LoadScales(group.values, v.codec->code_bits, v.width, group.span, group.values_ahead, s.value_scales, &group.poison);
}

template <int kRows>
SWIVEL_INLINE void ScoreRows(const AttendPlan& plan, int row, const Group& group, const LevelTables& tables, Scratch& s) {
  const KvView& k = plan.args.k;
  if (!k.codec->has_integer_kernels()) {
    return ScoreFloats<kRows>(reinterpret_cast<const float*>(s.key_tile), k.width, group.span, s.q_floats + static_cast<size_t>(row) * k.width,
                              k.width, s.scores);
  }
  const ByteRows rows = {s.q_bytes + static_cast<size_t>(row) * k.width, static_cast<size_t>(k.width), s.bias + row};
  if (!IsDirect(group, *k.codec)) return ScoreBytes<kRows>(s.key_tile, k.width, group.span, s.key_scales, rows, s.scores);
  if (k.codec->layout == Layout::kTrellis) {
    return WithBits(k.codec->code_bits, [&]<int kBits>() {
      ScoreTrellisCodes<kBits, kRows>(group.keys, k.width, group.span, group.keys_ahead, tables, s.key_scales, rows, s.scores);
    });
  }
  const ByteTable table = MakeByteTable(tables.key_bytes);
  WithBits(k.codec->code_bits, [&]<int kBits>() {
    ScoreCodes<kBits, kRows>(group.keys, k.width, group.span, group.keys_ahead, table, s.key_scales, rows, s.scores);
  });
}

// Raw scores of a block of rows, then their weights. Not inlined into its callers: one copy for each number of rows is enough code.
template <int kRows>
void WeighRows(const AttendPlan& plan, int row, const Group& group, const LevelTables& tables, Scratch& s) {
  ScoreRows<kRows>(plan, row, group, tables, s);
  const bool integer = plan.args.v.codec->has_integer_kernels();
  for (int r = row; r < row + kRows; ++r) {
    s.keep[r] = 1.0f;
    s.step[r] = 0.0f;
    if (!s.mask[r].visible.Any()) {
      std::memset(integer ? static_cast<void*>(s.weights + r * kGroupTokens) : s.float_weights + r * kGroupTokens, 0,
                  kGroupTokens * (integer ? 1 : sizeof(float)));
      continue;
    }
    F32x16 weights[kGroupVectors];
    s.keep[r] = SoftmaxRow(s.scores + (r - row) * kGroupTokens, s.mask[r], s.logits[r], group.poison, {s.max + r, s.sum + r}, weights);
    if (integer) {
      s.step[r] = QuantizeWeights(weights, s.value_scales, s.weights + r * kGroupTokens);
    } else {
      SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) Store(s.float_weights + r * kGroupTokens + 16 * v, weights[v]);
    }
  }
}

template <int kRows>
void AccumulateRows(const AttendPlan& plan, int row, const Group& group, const LevelTables& tables, Scratch& s) {
  const KvView& v = plan.args.v;
  float* out = s.out + static_cast<size_t>(row) * v.width;
  float step[kRows];
  int32_t bias[kRows];
  for (int r = 0; r < kRows; ++r) {
    step[r] = s.step[row + r] * tables.step;
    if (kValueBias != 0) bias[r] = -kValueBias * std::accumulate(s.weights + (row + r) * kGroupTokens, s.weights + (row + r + 1) * kGroupTokens, 0);
  }
  const WeightRows rows = {s.weights + row * kGroupTokens, bias, s.float_weights + row * kGroupTokens, step, s.keep + row};
  if (!v.codec->has_integer_kernels()) return AccumulateFloats<kRows>(reinterpret_cast<const float*>(s.value_tile), v.width, group.span, rows, out);
  if (!IsDirect(group, *v.codec)) return AccumulateBytes<kRows>(s.value_tile, v.width, group.span, rows, out);
  if (v.codec->layout == Layout::kTrellis) {
    return WithBits(v.codec->code_bits, [&]<int kBits>() {
      AccumulateTrellisCodes<kBits, kRows>(group.values, v.width, group.span, group.values_ahead, tables, rows, out);
    });
  }
  const ByteTable table = MakeByteTable(tables.value_bytes);
  WithBits(v.codec->code_bits, [&]<int kBits>() {
    AccumulateCodes<kBits, kRows>(group.values, v.width, group.span, group.values_ahead, table, rows, out);
  });
}

template <int kRows = kRowBlock, class F>
SWIVEL_INLINE void WithRows(int rows, F f) {
  if constexpr (kRows > 1) {
    if (rows < kRows) return WithRows<kRows - 1>(rows, f);
  }
  f.template operator()<kRows>();
}

// Calls f.operator()<rows>(first row) for blocks of rows of even size that hold a row which sees something.
template <class F>
SWIVEL_INLINE void ForRowBlocks(const Item& item, const Scratch& s, F f) {
  const int blocks = (item.num_rows + kRowBlock - 1) / kRowBlock;
  for (int b = 0; b < blocks; ++b) {
    const int row = item.num_rows * b / blocks;
    const int rows = item.num_rows * (b + 1) / blocks - row;
    bool any = false;
    for (int r = row; r < row + rows; ++r) any |= s.mask[r].visible.Any();
    if (any) WithRows(rows, [&]<int kRows>() { f.template operator()<kRows>(row); });
  }
}

void AttendItem(AttendPlan& plan, const Item& item, const LevelTables& k_tables, const LevelTables& v_tables, Scratch& s) {
  PrepareRows(plan, item, k_tables, s);
  for (int64_t cell = item.first_cell; cell < item.end_cell; cell += kGroupTokens) {
    Group group = LocateGroup(plan, item, cell);
    if (!FindVisible(plan, item, cell, s, &group)) continue;
    UnpackKeys(plan.args.k, k_tables, group, s);
    UnpackValues(plan.args.v, v_tables, group, s);
    ForRowBlocks(item, s, [&]<int kRows>(int row) { WeighRows<kRows>(plan, row, group, k_tables, s); });
    ForRowBlocks(item, s, [&]<int kRows>(int row) { AccumulateRows<kRows>(plan, row, group, v_tables, s); });
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
  const auto make_tables = [](const Codec& codec, LevelTables* tables) {
    if (codec.layout == Layout::kPlanes) *tables = MakeLevelTables(codec);
    if (codec.layout == Layout::kTrellis) *tables = MakeTrellisTables(codec);
  };
  make_tables(*plan.args.k.codec, &k_tables);
  make_tables(*plan.args.v.codec, &v_tables);
  for (;;) {
    const int64_t index = plan.next_item->fetch_add(1, std::memory_order_relaxed);
    if (index >= plan.num_items) return;
    AttendItem(plan, MakeItem(plan, index), k_tables, v_tables, s);
  }
}
