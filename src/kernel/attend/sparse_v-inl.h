// Sparse V: values whose weights are negligible are neither unpacked nor added up. Their mass stays in the divisor.
//
// A group is left out for a block of rows when each of its rows r has
//
//   D_r + m_r <= eps * turn / turns * T_r
//
// m_r is the mass of the group (the sum of its weights), D_r what the row has left out before, `turn` counts the groups of the item as they come, to
// `turns` at most. T_r is the row's sum so far, S_r with m_r in it, or, where a context is cut into Z splits,
//
//   T_r = S_r + A_r / Z  in a split without the anchor,      S_r - A_r + A_r / Z  in the split that holds it.
//
// The anchor is the first group that any row of the item sees, A_r its mass: each split weighs it for itself. Most of a row's mass is often there (on
// attention sinks); without it, splits that hold nothing of importance would compare their unimportant groups with each other and keep them.
// All are in the units of the online softmax, in which D and A are rescaled with S.
//
// The bound: in fixed units T never falls and D grows by what was tested only, so D_r <= eps * max(T_r, 0) at the end of an item, whatever came in
// which order: exact rows, tiers and masked groups included. Over the splits the T of a row sum to its S (each is at least 0 then), the merge
// multiplies D, S and A of a split by one factor, and an attention sink only adds to the divisor. So the output changes by
// |sum over what is left out of w_t v_t| / divisor <= D / S * max |v| <= eps * max |v|, v as stored (up to the rounding of the sums).
//
// Why turn / turns: were all of eps free from the first group on, a few middling groups would use it up before many small ones. As it is, whatever an equal
// share for each group (m_r <= eps / turns * T_r) leaves out is left out here too, by induction, and what a group does not use is there for later ones.
//
// NaN: a row whose sum is NaN fails the comparison, so its block is added up. What tells NaN in V is read before the decision (PrepareValues).

SWIVEL_INLINE void StartSparse(const AttendPlan& plan, const Item& item, Scratch& s) {
  std::memset(s.skipped, 0, item.num_rows);
  s.turn = 0;
  if (plan.args.sparse_v == 0.0f) return;
  std::memset(s.left_out, 0, item.num_rows * sizeof(float));
  const auto groups = static_cast<int>((item.end_cell - item.first_cell + kGroupTokens - 1) / kGroupTokens);
  s.turns = plan.args.exact.bits != nullptr ? 2 * groups : groups;  // a group may hold both kinds of cells
  s.value_rows = s.skipped_value_rows = 0;
}

// Keeps what the rows have come to so far as the anchor, or none.
SWIVEL_INLINE void SetAnchor(const AttendPlan& plan, const Item& item, int64_t anchor_cell, bool any, Scratch& s) {
  const bool inside = item.first_cell <= anchor_cell && anchor_cell < item.end_cell;
  s.anchor_share = 1.0f / static_cast<float>(plan.num_splits) - (inside ? 1.0f : 0.0f);
  for (int row = 0; row < item.num_rows; ++row) {
    s.anchor_max[row] = any ? s.max[row] : 0.0f;
    s.anchor_sum[row] = any ? s.sum[row] : 0.0f;
  }
}

// Decides for a block of rows that have been weighed whether the group is left out for them, and counts. A function of its own: it stays out of the
// way of those who do not use it.
static bool SkipRows(const AttendPlan& plan, int row, int num_rows, Scratch& s) {
  const float allowed = plan.args.sparse_v * static_cast<float>(s.turn) / static_cast<float>(s.turns);
  bool skip = true;
  int64_t cells = 0;
  for (int r = row; r < row + num_rows; ++r) {
    s.left_out[r] *= s.keep[r];
    // Rows that see nothing of the group have no mass and no say.
    if (s.mass[r] != 0.0f) {
      float total = s.sum[r];
      if (s.anchor_sum[r] != 0.0f) total += s.anchor_share * s.anchor_sum[r] * std::exp2(s.anchor_max[r] - s.max[r]);
      skip &= s.left_out[r] + s.mass[r] <= allowed * total;
    }
    cells += std::popcount(s.mask[r].visible.word[0]) + std::popcount(s.mask[r].visible.word[1]);
  }
  s.value_rows += cells;
  std::memset(s.skipped + row, skip, num_rows);
  if (!skip) return false;
  s.skipped_value_rows += cells;
  const int width = plan.args.v.width;
  for (int r = row; r < row + num_rows; ++r) {
    s.left_out[r] += s.mass[r];
    if (s.keep[r] == 1.0f) continue;
    // A larger maximum in a group of little mass: rare, but earlier sums change their unit.
    float* out = s.out + static_cast<size_t>(r) * width;
    for (int i = 0; i < width; i += 16) Store(out + i, Mul(Load(out + i), Set(s.keep[r])));
  }
  return true;
}

// Once an item, so that the shared counters cost nothing.
SWIVEL_INLINE void ReportSparse(AttendPlan& plan, const Scratch& s) {
  if (plan.args.sparse_v == 0.0f) return;
  plan.value_rows->fetch_add(s.value_rows, std::memory_order_relaxed);
  plan.skipped_value_rows->fetch_add(s.skipped_value_rows, std::memory_order_relaxed);
}
