// How the two sides of a cache are stored, as the attention kernels want to know it: worked out once a thread.

// A run of coordinates with codes and scales of its own: a whole row, or one segment of it.
struct Part {
  int begin, width, bits;
  size_t codes;   // from the start of the group
  size_t scales;  // from the start of the group, segments: of its side data
};

struct Form {
  bool integer;  // attention multiplies levels by query bytes and by weights; else floats
  bool trellis;
  int count;  // of parts
  Part part[kMaxSegments];
  LevelTables tables[kMaxSegments];
  const SegmentLayout* segments;
};

// The forms of all tiers of both sides.
struct Forms {
  Form k[kMaxTiers], v[kMaxTiers];
};

SWIVEL_INLINE Form MakeForm(const KvView& view) {
  const Codec& codec = *view.codec;
  Form form;
  form.integer = codec.has_integer_kernels();
  form.trellis = codec.layout == Layout::kTrellis;
  form.segments = view.segments;
  form.count = 1;
  if (!form.integer) return form;
  if (view.segments == nullptr) {
    form.part[0] = {0, view.width, codec.code_bits, 0, ScalesOffset(codec.code_bits, view.width)};
    form.tables[0] = form.trellis ? MakeTrellisTables(codec.code_bits) : MakeLevelTables(codec);
    return form;
  }
  form.count = view.segments->count;
  for (int p = 0; p < form.count; ++p) {
    const Segment& segment = view.segments->segment[p];
    form.part[p] = {segment.begin, segment.width, segment.bits, view.segments->CodesOffset(p), view.segments->ScalesOffset(p)};
    form.tables[p] = MakeTrellisTables(segment.bits);
  }
  return form;
}

SWIVEL_INLINE Forms MakeForms(const AttendArgs& args) {
  Forms forms;
  forms.k[0] = MakeForm(args.k);
  forms.v[0] = MakeForm(args.v);
  for (int t = 1; t < args.tiers.num_k; ++t) forms.k[t] = MakeForm(args.tiers.more_k[t - 1]);
  for (int t = 1; t < args.tiers.num_v; ++t) forms.v[t] = MakeForm(args.tiers.more_v[t - 1]);
  return forms;
}

// Whether few rows read the codes of a part where they are. Trellis codes of 6 bits pass through a tile: a kernel for each number of rows
// is not worth its code.
SWIVEL_INLINE bool ReadsCodesDirectly(const Form& form, const Part& part) { return form.integer && (!form.trellis || part.bits <= 5); }
SWIVEL_INLINE bool ReadsCodesDirectly(const Form& form) { return ReadsCodesDirectly(form, form.part[0]); }

// Calls f.operator()<bits>() for the trellis codes that few rows read directly.
template <class F>
SWIVEL_INLINE void WithDirectTrellisBits(int bits, F f) {
  if (bits == 1) return f.template operator()<1>();
  if (bits == 5) return f.template operator()<5>();
  WithBits(bits, f);
}

// The scales of one part of a group, as e8m8. `ahead` as in ScoreCodes.
SWIVEL_INLINE void FetchScales(const Form& form, int p, const uint8_t* group, const uint8_t* side, size_t ahead, uint16_t (&stored)[kGroupTokens]) {
  const Part& part = form.part[p];
  if (form.segments == nullptr) {
    std::memcpy(stored, group + part.scales, sizeof(stored));
    for (size_t line = 0; line < sizeof(stored); line += 64) Prefetch(group + part.scales + ahead + line);
    return;
  }
  uint16_t base;
  std::memcpy(&base, side + 2 * p, 2);
  const uint8_t* codes = side + part.scales;
  const int shift = form.segments->scale_shift;
  for (int t = 0; t < kGroupTokens; ++t) stored[t] = static_cast<uint16_t>(codes[t] == 0 ? 0 : base - ((255 - codes[t]) << shift));
}
