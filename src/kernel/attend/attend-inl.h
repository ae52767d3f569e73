// Attention over the cells of a work item: first those that are kept exact, then the packed ones, group by group. For each group all rows are
// scored and turned into weights, then all rows accumulate, so that one tile at a time has to stay in the caches. See attend.h for the
// definition.

// A group of 128 cells of one KV head.
struct Group {
  const uint8_t *keys, *values;            // the packed group, or row 0 of the exact ones
  const uint8_t *key_side, *value_side;    // of groups that are packed as a whole
  size_t keys_ahead, values_ahead;         // from here to the packed group that this item reads next; 0: it is the last
  Span span;                               // what any row sees
  TokenBits seen;                          // by any row
  TokenBits poison;                        // a bit for each cell that is NaN in K or V
  bool direct;                             // few rows: codes are read where they are, not unpacked
  bool exact;                              // floats in the model's basis, not what the forms say
};

// 128 mask values of a row from `cell` on. A row that ends within them is copied: reading on would leave the tensor.
SWIVEL_INLINE const uint16_t* MaskValues(const uint16_t* mask, int64_t left, uint16_t* tail) {
  if (left >= kGroupTokens) return mask;
  for (int i = 0; i < kGroupTokens; ++i) tail[i] = i < left ? mask[i] : 0xfc00;
  return tail;
}

// The cells of a group that are kept exact.
SWIVEL_INLINE TokenBits ExactCells(const AttendPlan& plan, const Item& item, int64_t cell) {
  const ExactRows& exact = plan.args.exact;
  TokenBits cells;
  if (exact.bits == nullptr) return cells;
  const uint64_t* at = exact.bits + 2 * ((plan.args.first_stream + item.stream) * exact.groups_per_stream + cell / kGroupTokens);
  return {{at[0], at[1]}};
}

// Finds what every row sees of those cells of the group at `cell` that are in `cells`; false when no row sees any.
SWIVEL_INLINE bool FindVisible(const AttendPlan& plan, const Item& item, int64_t cell, TokenBits cells, bool codes, Scratch& s, Group* group) {
  if (!cells.Any()) return false;
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
        mask.visible.word[w] = cells.word[w] & (in_word >= 64 ? ~uint64_t{0} : in_word <= 0 ? 0 : (uint64_t{1} << in_word) - 1);
      }
    } else {
      const char* base = reinterpret_cast<const char*>(args.mask) + item.stream * args.mask_stream_stride +
                         HeadOfRow(plan, item, row) * args.mask_head_stride + QueryOfRow(plan, item, row) * args.mask_query_stride;
      const uint16_t* values = MaskValues(reinterpret_cast<const uint16_t*>(base) + cell, left, s.mask_tails + row * kGroupTokens);
      for (int w = 0; w < 2; ++w) {
        mask.visible.word[w] = cells.word[w] & ~EqualBits64(values + 64 * w, 0xfc00);
        if ((mask.visible.word[w] & ~EqualBits64(values + 64 * w, 0)) != 0) mask.values = values;
      }
    }
    for (int w = 0; w < 2; ++w) any.word[w] |= mask.visible.word[w];
  }
  if (!any.Any()) return false;
  group->seen = any;
  const int step = group->direct && codes ? 2 : std::max(2, kVectorBlock);  // tiles are read kVectorBlock vectors at a time
  const int first = any.word[0] != 0 ? std::countr_zero(any.word[0]) : 64 + std::countr_zero(any.word[1]);
  const int end = any.word[1] != 0 ? 128 - std::countl_zero(any.word[1]) : 64 - std::countl_zero(any.word[0]);
  group->span = {first / (16 * step) * step, (end + 16 * step - 1) / (16 * step) * step};
  return true;
}

SWIVEL_INLINE const uint8_t* At(const uint8_t* base, const GroupStrides& strides, int stream, int64_t index, int head) {
  return base + stream * strides.stream + index * strides.group + head * strides.head;
}

// Which views hold a group.
struct GroupTiers {
  int k, v;
};
SWIVEL_INLINE GroupTiers TiersOf(const AttendPlan& plan, const Item& item, int64_t cell) {
  const PackedTiers& tiers = plan.args.tiers;
  if (tiers.k == nullptr) return {item.k_place.view, item.v_place.view};
  const int64_t index = (plan.args.first_stream + item.stream) * plan.args.exact.groups_per_stream + cell / kGroupTokens;
  return {tiers.k[index], tiers.v[index]};
}

SWIVEL_INLINE Group LocateGroup(const AttendPlan& plan, const Item& item, int64_t cell, GroupTiers tiers) {
  const KvView& k = ViewAt(plan.args.k, plan.args.tiers.more_k, tiers.k);
  const KvView& v = ViewAt(plan.args.v, plan.args.tiers.more_v, tiers.v);
  const int64_t index = cell / kGroupTokens;
  const int stream = plan.args.first_stream + item.stream;
  const bool last = cell + kGroupTokens >= item.end_cell;
  Group group = {};
  group.keys = At(k.base, k.strides, stream, index, item.k_place.head);
  group.values = At(v.base, v.strides, stream, index, item.v_place.head);
  if (k.segments != nullptr) group.key_side = At(k.side, k.side_strides, stream, index, item.k_place.head);
  if (v.segments != nullptr) group.value_side = At(v.side, v.side_strides, stream, index, item.v_place.head);
  group.keys_ahead = last ? 0 : k.strides.group;
  group.values_ahead = last ? 0 : v.strides.group;
  group.direct = item.num_rows <= kRowBlock;
  return group;
}

SWIVEL_INLINE Group LocateExact(const AttendPlan& plan, const Item& item, int64_t cell) {
  const ExactRows& exact = plan.args.exact;
  const int stream = plan.args.first_stream + item.stream;
  const size_t head = static_cast<size_t>(item.kv_head) * sizeof(uint16_t);
  Group group = {};
  group.keys = exact.k + stream * exact.k_stream_stride + cell * exact.k_row_stride + head * plan.args.k.width;
  group.values = exact.v + stream * exact.v_stream_stride + cell * exact.v_row_stride + head * plan.args.v.width;
  group.exact = true;
  return group;
}

// Whether the codes of a part are read where they are.
SWIVEL_INLINE bool IsDirect(const Group& group, const Form& form, const Part& part) { return group.direct && ReadsCodesDirectly(form, part); }

// What many rows read instead of the codes.
SWIVEL_INLINE void UnpackKeyBytes(const Form& form, int p, const Group& group, uint8_t* tile) {
  const Part& part = form.part[p];
  const uint8_t* codes = group.keys + part.codes;
  if (form.trellis) {
    return WithTrellisBits(part.bits, [&]<int kBits>() {
      UnpackTrellisKeys<kBits>(codes, part.width, group.span, group.keys_ahead, form.tables[p], tile);
    });
  }
  const ByteTable table = MakeByteTable(form.tables[p].key_bytes);
  WithBits(part.bits, [&]<int kBits>() { UnpackKeyCodes<kBits>(codes, part.width, group.span, table, tile); });
}

SWIVEL_INLINE void UnpackValueBytes(const Form& form, const Group& group, uint8_t* tile) {
  const Part& part = form.part[0];
  if (form.trellis) {
    return WithTrellisBits(part.bits, [&]<int kBits>() {
      UnpackTrellisValues<kBits>(group.values, part.width, group.span, group.values_ahead, form.tables[0], tile);
    });
  }
  const ByteTable table = MakeByteTable(form.tables[0].value_bytes);
  WithBits(part.bits, [&]<int kBits>() { UnpackValueCodes<kBits>(group.values, part.width, group.span, table, tile); });
}

// A part's bytes within a key tile.
SWIVEL_INLINE uint8_t* KeyTile(const Scratch& s, const Part& part) { return s.key_tile + static_cast<size_t>(part.begin) * kGroupTokens; }

SWIVEL_INLINE void UnpackKeys(const AttendPlan& plan, const Item& item, const Form& form, Group& group, Scratch& s) {
  const KvView& k = *item.k;
  auto* floats = reinterpret_cast<float*>(s.key_tile);
  if (group.exact || !form.integer) {
    if (group.exact) {
      UnpackExactKeys(group.keys, plan.args.exact.k_row_stride, k.width, group.span, group.seen, floats);
    } else {
      UnpackKeyFloats(*k.codec, group.keys, k.width, group.span, floats);
    }
    return CheckKeyFloats(k.width, group.span, floats, &group.poison);
  }
  for (int p = 0; p < form.count; ++p) {
    const Part& part = form.part[p];
    if (!IsDirect(group, form, part)) UnpackKeyBytes(form, p, group, KeyTile(s, part));
    uint16_t stored[kGroupTokens];
    FetchScales(form, p, group.keys, group.key_side, group.keys_ahead, stored);
    WidenScales(stored, group.span, s.key_scales[p], &group.poison);
  }
  if (form.segments != nullptr) GetGroupMean(*form.segments, group.key_side, s.mean);
}

// What rows are weighed with: the scales of the values, and which cells hold NaN. Values that are not codes are unpacked here, since only they
// themselves tell.
SWIVEL_INLINE void PrepareValues(const AttendPlan& plan, const Item& item, const Form& form, Group& group, Scratch& s) {
  const KvView& v = *item.v;
  auto* floats = reinterpret_cast<float*>(s.value_tile);
  if (group.exact || !form.integer) {
    if (group.exact) {
      UnpackExactValues(group.values, plan.args.exact.v_row_stride, v.width, group.span, group.seen, floats);
    } else {
      UnpackValueFloats(*v.codec, group.values, v.width, group.span, floats);
    }
    return CheckValueFloats(v.width, group.span, floats, &group.poison);
  }
  // Scales outside the span meet weights of 0, but 0 times what is left in the scratch must not be NaN.
  if (group.span.begin != 0 || group.span.end != kGroupVectors) std::memset(s.value_scales, 0, kGroupTokens * sizeof(float));
  uint16_t stored[kGroupTokens];
  FetchScales(form, 0, group.values, group.value_side, group.values_ahead, stored);
  WidenScales(stored, group.span, s.value_scales, &group.poison);
}

// Scores of one part of the coordinates.
template <int kRows>
SWIVEL_INLINE void ScorePart(const Form& form, int p, int row, int width, const Group& group, Scratch& s) {
  const Part& part = form.part[p];
  const ByteRows rows = {s.q_bytes + static_cast<size_t>(row) * width + part.begin, static_cast<size_t>(width), s.bias[p] + row};
  if (!IsDirect(group, form, part)) return ScoreBytes<kRows>(KeyTile(s, part), part.width, group.span, s.key_scales[p], rows, s.scores[p]);
  const uint8_t* codes = group.keys + part.codes;
  if (form.trellis) {
    return WithDirectTrellisBits(part.bits, [&]<int kBits>() {
      ScoreTrellisCodes<kBits, kRows>(codes, part.width, group.span, group.keys_ahead, form.tables[p], s.key_scales[p], rows, s.scores[p]);
    });
  }
  const ByteTable table = MakeByteTable(form.tables[p].key_bytes);
  WithBits(part.bits, [&]<int kBits>() {
    ScoreCodes<kBits, kRows>(codes, part.width, group.span, group.keys_ahead, table, s.key_scales[p], rows, s.scores[p]);
  });
}

template <int kRows>
SWIVEL_INLINE void ScoreRows(const AttendPlan& plan, const Form& form, int row, const Group& group, Scratch& s) {
  const int width = plan.args.k.width;
  if (group.exact || !form.integer) {
    return ScoreFloats<kRows>(reinterpret_cast<const float*>(s.key_tile), width, group.span, s.q_floats + static_cast<size_t>(row) * width, width,
                              s.scores[0]);
  }
  for (int p = 0; p < form.count; ++p) ScorePart<kRows>(form, p, row, width, group, s);
}

// Raw scores of a block of rows, then their weights. Not inlined into its callers: one copy for each number of rows is enough code.
template <int kRows>
void WeighRows(const AttendPlan& plan, int row, const Group& group, const Form& key_form, const Form& value_form, Scratch& s) {
  ScoreRows<kRows>(plan, key_form, row, group, s);
  const bool integer = !group.exact && value_form.integer;
  const bool segments = !group.exact && key_form.segments != nullptr;
  const int width = plan.args.k.width;
  for (int r = row; r < row + kRows; ++r) {
    s.keep[r] = 1.0f;
    s.step[r] = 0.0f;
    s.mass[r] = 0.0f;
    if (!s.mask[r].visible.Any()) {
      std::memset(integer ? static_cast<void*>(s.weights + r * kGroupTokens) : s.float_weights + r * kGroupTokens, 0,
                  kGroupTokens * (integer ? 1 : sizeof(float)));
      continue;
    }
    RowScores scores = {s.scores[0] + (r - row) * kGroupTokens, nullptr, 0.0f};
    if (segments) {
      if (key_form.count == 2) scores.second = s.scores[1] + (r - row) * kGroupTokens;
      scores.shift = s.logits[r].unit * (s.shift[r] + DotRow(s.q_floats + static_cast<size_t>(r) * width, s.mean, width));
    }
    F32x16 weights[kGroupVectors];
    s.keep[r] = SoftmaxRow(scores, s.mask[r], s.logits[r], group.poison, {s.max + r, s.sum + r, s.mass + r}, weights);
    if (integer) {
      s.step[r] = QuantizeWeights(weights, s.value_scales, s.weights + r * kGroupTokens);
    } else {
      SWIVEL_UNROLL for (int v = 0; v < kGroupVectors; ++v) Store(s.float_weights + r * kGroupTokens + 16 * v, weights[v]);
    }
  }
}

template <int kRows>
void AccumulateRows(const AttendPlan& plan, int row, const Group& group, const Form& form, Scratch& s) {
  const int width = plan.args.v.width;
  float* out = s.out + static_cast<size_t>(row) * width;
  if (group.exact || !form.integer) {
    const WeightRows rows = {nullptr, nullptr, s.float_weights + row * kGroupTokens, nullptr, s.keep + row};
    return AccumulateFloats<kRows>(reinterpret_cast<const float*>(s.value_tile), width, group.span, rows, out);
  }
  const LevelTables& tables = form.tables[0];
  float step[kRows];
  int32_t bias[kRows];
  for (int r = 0; r < kRows; ++r) {
    step[r] = s.step[row + r] * tables.step;
    if (kValueBias != 0) bias[r] = -kValueBias * std::accumulate(s.weights + (row + r) * kGroupTokens, s.weights + (row + r + 1) * kGroupTokens, 0);
  }
  const WeightRows rows = {s.weights + row * kGroupTokens, bias, nullptr, step, s.keep + row};
  if (!IsDirect(group, form, form.part[0])) return AccumulateBytes<kRows>(s.value_tile, width, group.span, rows, out);
  if (form.trellis) {
    return WithDirectTrellisBits(form.part[0].bits, [&]<int kBits>() {
      AccumulateTrellisCodes<kBits, kRows>(group.values, width, group.span, group.values_ahead, tables, rows, out);
    });
  }
  const ByteTable table = MakeByteTable(tables.value_bytes);
  WithBits(form.part[0].bits, [&]<int kBits>() {
    AccumulateCodes<kBits, kRows>(group.values, width, group.span, group.values_ahead, table, rows, out);
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

// One group for all rows; `group` has been located and is seen.
SWIVEL_INLINE void AttendGroup(const AttendPlan& plan, const Item& item, const Form& key_form, const Form& value_form, Group& group, Scratch& s) {
  UnpackKeys(plan, item, key_form, group, s);
  PrepareValues(plan, item, value_form, group, s);
  ForRowBlocks(item, s, [&]<int kRows>(int row) { WeighRows<kRows>(plan, row, group, key_form, value_form, s); });
  if (plan.args.sparse_v > 0.0f) {
    if (s.weigh_only) return;
    bool wanted = false;
    ForRowBlocks(item, s, [&]<int kRows>(int row) { wanted |= !SkipRows(plan, row, kRows, s); });
    if (!wanted) return;
  }
  const bool codes = !group.exact && value_form.integer;
  if (codes && !IsDirect(group, value_form, value_form.part[0])) UnpackValueBytes(value_form, group, s.value_tile);
  ForRowBlocks(item, s, [&]<int kRows>(int row) {
    if (s.skipped[row] == 0) AccumulateRows<kRows>(plan, row, group, value_form, s);
  });
}

// The cells that are kept exact. Outputs are summed in the model's basis and then turned into the packed values' frame.
SWIVEL_INLINE void AttendExact(const AttendPlan& plan, const Item& item, const Form& key_form, const Form& value_form, Scratch& s) {
  const int k_width = plan.args.k.width;
  const int v_width = plan.args.v.width;
  bool any = false;
  for (int64_t cell = item.first_cell; cell < item.end_cell; cell += kGroupTokens) {
    ++s.turn;
    Group group = LocateExact(plan, item, cell);
    if (!FindVisible(plan, item, cell, ExactCells(plan, item, cell), /*codes=*/false, s, &group)) continue;
    if (!any) {
      for (int row = 0; row < item.num_rows; ++row) {
        std::memcpy(s.q_floats + static_cast<size_t>(row) * k_width, QueryAt(plan, item, row), k_width * sizeof(float));
      }
    }
    any = true;
    AttendGroup(plan, item, key_form, value_form, group, s);
  }
  if (!any || s.weigh_only) return;
  for (int row = 0; row < item.num_rows; ++row) RotateRow(item.v->codec->frame(Side::kValue), s.out + static_cast<size_t>(row) * v_width, v_width);
}

// The packed cells whose keys are in tier `tier`: tiers differ in what a query byte is worth, so each has its turn.
SWIVEL_INLINE void AttendPacked(const AttendPlan& plan, const Item& item, int tier, const Forms& forms, Scratch& s) {
  if (item.k->segments != nullptr && item.k->transforms == nullptr) return;  // nothing can have been packed
  const Form& key_form = forms.k[tier];
  bool any = false;
  for (int64_t cell = item.first_cell; cell < item.end_cell; cell += kGroupTokens) {
    const GroupTiers tiers = TiersOf(plan, item, cell);
    if (tiers.k != tier) continue;
    ++s.turn;
    const Form& value_form = forms.v[tiers.v];
    const bool codes = ReadsCodesDirectly(key_form) && ReadsCodesDirectly(value_form);
    const TokenBits exact = ExactCells(plan, item, cell);
    Group group = LocateGroup(plan, item, cell, tiers);
    if (!FindVisible(plan, item, cell, {{~exact.word[0], ~exact.word[1]}}, codes, s, &group)) continue;
    if (!any) PrepareRows(plan, item, key_form, s);
    any = true;
    AttendGroup(plan, item, key_form, value_form, group, s);
  }
}

// All cells of an item.
static void AttendCells(const AttendPlan& plan, const Item& item, const Forms& forms, Scratch& s) {
  StartRows(plan, item, s);
  StartSparse(plan, item, s);
  if (plan.args.exact.bits != nullptr) AttendExact(plan, item, forms.k[0], forms.v[0], s);
  for (int tier = 0; tier < plan.args.tiers.num_k; ++tier) AttendPacked(plan, item, tier, forms, s);
}

// Weighs the first group that a row of the item sees, wherever in the context it is (sparse_v-inl.h).
static void FindAnchor(const AttendPlan& plan, const Item& item, const Forms& forms, Scratch& s) {
  Item anchor = item;
  anchor.first_cell = 0;
  anchor.end_cell = plan.num_splits > 1 ? plan.args.num_cells : 0;  // nothing to share with others
  Group group = {};
  const TokenBits all = {{~uint64_t{0}, ~uint64_t{0}}};
  while (anchor.first_cell < anchor.end_cell && !FindVisible(plan, anchor, anchor.first_cell, all, /*codes=*/false, s, &group)) {
    anchor.first_cell += kGroupTokens;
  }
  const bool any = anchor.first_cell < anchor.end_cell;
  if (any) {
    anchor.end_cell = std::min(anchor.first_cell + kGroupTokens, anchor.end_cell);
    s.weigh_only = true;
    AttendCells(plan, anchor, forms, s);
    s.weigh_only = false;
  }
  SetAnchor(plan, item, anchor.first_cell, any, s);
}

void AttendItem(AttendPlan& plan, const Item& item, const Forms& forms, Scratch& s) {
  if (plan.args.sparse_v > 0.0f) FindAnchor(plan, item, forms, s);
  AttendCells(plan, item, forms, s);
  ReportSparse(plan, s);
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
  const Forms forms = MakeForms(plan.args);
  for (;;) {
    const int64_t index = plan.next_item->fetch_add(1, std::memory_order_relaxed);
    if (index >= plan.num_items) return;
    AttendItem(plan, MakeItem(plan, index), forms, s);
  }
}
