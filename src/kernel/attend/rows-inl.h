// The rows of a work item (queries times the heads of a group): their scratch memory, their preparation, their results and the merge of
// the splits they were cut into.

// One thread's working memory, carved out of AttendPlan::thread_bytes.
struct Scratch {
  uint8_t* key_tile;       // 128 cells: bytes or floats
  uint8_t* value_tile;     // 128 cells: bytes or floats
  float* q_floats;         // [rows][key width], in the basis of the keys that are read
  int8_t* q_bytes;         // [rows][key width], the same as bytes, when keys are codes
  float* out;              // [rows][value width], in the codec's frame, not yet divided by the sum
  float* max;              // [rows]
  float* sum;              // [rows]
  Logits* logits;          // [rows]
  float* shift;            // [rows] q . mean of the keys
  int32_t* bias[kMaxSegments];      // [rows]
  RowMask* mask;           // [rows] of the current group
  uint16_t* mask_tails;    // [rows][128]: mask rows that end within the current group
  float* key_scales[kMaxSegments];  // [128]
  float* value_scales;     // [128]
  float* scores[kMaxSegments];      // [kRowBlock][128]
  float* mean;             // [key width] of the group's keys, when they are in segments
  uint8_t* weights;        // [rows][128] when values are table codes …
  float* float_weights;    // … else this
  float* keep;             // [rows]
  float* step;             // [rows]
  float* mass;             // [rows] sum of the weights of the current group

  // Of sparse V (sparse_v-inl.h).
  uint8_t* skipped;        // [rows] whether the current group's values are left out; all 0 when it is off
  float* left_out;         // [rows] mass of the groups that were
  int turn, turns;         // groups that this item has come to, and the most there can be
  float *anchor_max, *anchor_sum;  // [rows] of the anchor; sum 0: the row sees nothing of it
  float anchor_share;
  bool weigh_only;         // groups are weighed and their values left alone: the anchor is being looked at
  int64_t value_rows, skipped_value_rows;  // counts of this item
};

SWIVEL_INLINE Scratch CarveScratch(const AttendPlan& plan, int thread) {
  uint8_t* at = plan.scratch + plan.thread_bytes * thread;
  const auto take = [&at](size_t bytes) {
    uint8_t* taken = at;
    at += (bytes + 63) / 64 * 64;
    return taken;
  };
  const auto take_floats = [&take](size_t count) { return reinterpret_cast<float*>(take(count * sizeof(float))); };
  const size_t rows = static_cast<size_t>(plan.group_heads) * plan.block_queries;
  const size_t k_width = plan.args.k.width;
  const size_t v_width = plan.args.v.width;
  Scratch s;
  s.key_tile = take(kGroupTokens * k_width * sizeof(float));
  s.value_tile = take(kGroupTokens * v_width * sizeof(float));
  s.q_floats = take_floats(rows * k_width);
  s.q_bytes = reinterpret_cast<int8_t*>(take(rows * k_width));
  s.out = take_floats(rows * v_width);
  s.max = take_floats(rows);
  s.sum = take_floats(rows);
  s.logits = reinterpret_cast<Logits*>(take(rows * sizeof(Logits)));
  s.shift = take_floats(rows);
  for (auto& bias : s.bias) bias = reinterpret_cast<int32_t*>(take(rows * sizeof(int32_t)));
  s.mask = reinterpret_cast<RowMask*>(take(rows * sizeof(RowMask)));
  s.mask_tails = reinterpret_cast<uint16_t*>(take(rows * kGroupTokens * sizeof(uint16_t)));
  for (float*& scales : s.key_scales) scales = take_floats(kGroupTokens);
  s.value_scales = take_floats(kGroupTokens);
  for (float*& scores : s.scores) scores = take_floats(kRowBlock * kGroupTokens);
  s.mean = take_floats(k_width);
  s.float_weights = take_floats(rows * kGroupTokens);
  s.weights = reinterpret_cast<uint8_t*>(s.float_weights);
  s.keep = take_floats(rows);
  s.step = take_floats(rows);
  s.mass = take_floats(rows);
  s.skipped = take(rows);
  s.left_out = take_floats(rows);
  s.anchor_max = take_floats(rows);
  s.anchor_sum = take_floats(rows);
  s.weigh_only = false;
  return s;
}

// What one work item covers.
struct Item {
  int64_t index, block;
  int stream, kv_head, first_query, num_queries, num_rows;
  int64_t first_cell, end_cell;
  // The head's packed groups: where they are, and the view, or, where groups choose, one whose frame and transforms are theirs too.
  HeadPlace k_place, v_place;
  const KvView *k, *v;
};

SWIVEL_INLINE const KvView& ViewAt(const KvView& first, const KvView* more, int view) { return view == 0 ? first : more[view - 1]; }

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
  const PackedTiers& tiers = plan.args.tiers;
  item.k_place = tiers.k_heads != nullptr ? tiers.k_heads[item.kv_head] : HeadPlace{0, item.kv_head};
  item.v_place = tiers.v_heads != nullptr ? tiers.v_heads[item.kv_head] : HeadPlace{0, item.kv_head};
  item.k = &ViewAt(plan.args.k, tiers.more_k, item.k_place.view);
  item.v = &ViewAt(plan.args.v, tiers.more_v, item.v_place.view);
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

// Of float scores. A softcap is applied in the model's units, before the change to base 2.
SWIVEL_INLINE Logits MakeLogits(const AttendArgs& args, int head) {
  const float cap = args.logit_softcap > 0.0f ? args.logit_softcap : 0.0f;
  const float unit = cap > 0.0f ? args.scale : args.scale * kLog2E;
  return {{unit, 0.0f}, unit, cap * kLog2E, cap > 0.0f ? 1.0f / cap : 0.0f, Slope(args, head) * kLog2E};
}

SWIVEL_INLINE const float* QueryAt(const AttendPlan& plan, const Item& item, int row) {
  const AttendArgs& args = plan.args;
  return reinterpret_cast<const float*>(reinterpret_cast<const char*>(args.q) + item.stream * args.q_stream_stride +
                                        HeadOfRow(plan, item, row) * args.q_head_stride + QueryOfRow(plan, item, row) * args.q_query_stride);
}

// Nothing seen yet. A query that holds a NaN or an infinity makes its sum NaN, which it stays to the end.
SWIVEL_INLINE void StartRows(const AttendPlan& plan, const Item& item, Scratch& s) {
  const int width = plan.args.k.width;
  for (int row = 0; row < item.num_rows; ++row) {
    const float* q = QueryAt(plan, item, row);
    F32x16 not_finite16 = Zero();
    for (int i = 0; i < width; i += 16) not_finite16 = Add(not_finite16, Mul(Load(q + i), Zero()));
    s.max[row] = -std::numeric_limits<float>::infinity();
    s.sum[row] = ReduceAdd(not_finite16) == 0.0f ? 0.0f : std::numeric_limits<float>::quiet_NaN();
    s.logits[row] = MakeLogits(plan.args, HeadOfRow(plan, item, row));
    s.shift[row] = 0.0f;
  }
  std::memset(s.out, 0, static_cast<size_t>(item.num_rows) * plan.args.v.width * sizeof(float));
}

SWIVEL_INLINE float DotRow(const float* a, const float* b, int width) {
  F32x16 sum = Zero();
  for (int i = 0; i < width; i += 16) sum = MulAdd(Load(a + i), Load(b + i), sum);
  return ReduceAdd(sum);
}

// Rounds one part of a query to bytes, with one scale.
SWIVEL_INLINE void QueryToBytes(const Part& part, const LevelTables& tables, int p, int row, int width, Scratch& s) {
  const float* q = s.q_floats + static_cast<size_t>(row) * width + part.begin;
  F32x16 largest16 = Zero();
  for (int i = 0; i < part.width; i += 16) largest16 = Max(largest16, Abs(Load(q + i)));
  const float largest = std::isnan(s.sum[row]) ? 0.0f : ReduceMax(largest16);
  const F32x16 to_bytes = Set(largest > 0.0f ? 127.0f / largest : 0.0f);
  int8_t* bytes = s.q_bytes + static_cast<size_t>(row) * width + part.begin;
  for (int i = 0; i < part.width; i += 16) StoreBytes(bytes + i, largest > 0.0f ? Mul(Load(q + i), to_bytes) : Zero());
  s.logits[row].factor[p] = s.logits[row].unit * (largest / 127.0f) * tables.step;
  int32_t total = 0;
  if (kByteBias != 0) {
    for (int i = 0; i < part.width; ++i) total += bytes[i];
  }
  s.bias[p][row] = -kByteBias * total;
}

// Brings the query of each row into the basis of the packed keys and rounds it to bytes where the scores are integers.
SWIVEL_INLINE void PrepareRows(const AttendPlan& plan, const Item& item, const Form& form, Scratch& s) {
  const KvView& k = *item.k;
  const KeyTransform* transform = k.segments != nullptr ? k.transforms + item.k_place.head : nullptr;
  for (int row = 0; row < item.num_rows; ++row) {
    float* target = s.q_floats + static_cast<size_t>(row) * k.width;
    const float* q = QueryAt(plan, item, row);
    if (transform != nullptr) {
      MultiplyRow<true>(transform->query.data(), q, k.width, target);
      s.shift[row] = DotRow(q, transform->mean.data(), k.width);
    } else {
      std::memcpy(target, q, k.width * sizeof(float));
      RotateRow(k.codec->frame(Side::kKey), target, k.width);
    }
    if (!form.integer) continue;
    for (int p = 0; p < form.count; ++p) QueryToBytes(form.part[p], form.tables[p], p, row, k.width, s);
  }
}

// Divides a row by its sum, rotates it back and writes it out.
SWIVEL_INLINE void WriteRow(const AttendPlan& plan, const Item& item, int row, float max, float sum, float* values) {
  const AttendArgs& args = plan.args;
  const int head = HeadOfRow(plan, item, row);
  if (args.sinks != nullptr && sum > 0.0f) {
    // A sink is one more logit without a value; the sum is relative to `max`, so only the divisor changes.
    const float sink = args.sinks[head] * kLog2E;
    if (sink > max) {
      const float shrink = std::exp2(max - sink);
      sum = sum * shrink + 1.0f;
      for (int i = 0; i < args.v.width; ++i) values[i] *= shrink;
    } else {
      sum += std::exp2(sink - max);
    }
  }
  const F32x16 inverse = Set(sum == 0.0f ? 0.0f : 1.0f / sum);  // no visible cell: zeros
  for (int i = 0; i < args.v.width; i += 16) Store(values + i, Mul(Load(values + i), inverse));
  InverseRotateRow(item.v->codec->frame(Side::kValue), values, args.v.width);
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

// Merges the splits of a block in order (FlashDecoding: out = sum_z 2^(m_z - m) out_z, sum likewise).
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
      const float weight = std::isnan(part_sum) ? part_sum : std::exp2(partial[row] - max);
      sum += part_sum * weight;
      const float* values = partial + 2 * rows + static_cast<size_t>(row) * width;
      for (int i = 0; i < width; i += 16) Store(out + i, MulAdd(Load(values + i), Set(weight), Load(out + i)));
    }
    WriteRow(plan, item, row, max, sum, out);
  }
}
