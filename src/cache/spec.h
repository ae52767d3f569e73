// The cache specification: the one grammar behind --kv and SWIVEL_KV.
//
//   spec   = ( codec | preset | file ) { "," item }  |  item { "," item }
//   item   = "k=" codec | "v=" codec | "boundary=" n ":" codec | "scale=" mode | "k_scale=" mode | "v_scale=" mode
//          | "layer=" n [ "-" n ] [ "/" head [ "-" head ] ] ":" [ "k=" | "v=" ] codec
//          | "transform=" ( none | wht | eq | full ) | "mean=" flag | "group_mean=" flag | "halves=" flag
//          | "sinks=" n | "window=" n | "decay=" age ":" bits { "+" age ":" bits } | "budget=" bytes [ K | M | G ]
//          | "defer=" ( off | prefill ) | "calibration=" ( self | path ) | "store=" path | "shrink=" x | "sparse_v=" x
//   codec  = a name of codec/codecs.inc     mode = matched | unbiased | ls; without: the codec's own     flag = on | off
//   file   = a path that ends in .toml (cache/spec_file.h)
// A bare codec name sets K and V; a preset is what SpecPresets() says and may be followed by items that change it, and so may a file.
// layer= may be given several times, for layers, KV heads or sides that differ. Unknown keys, names and impossible values are errors that list what
// is accepted.
#ifndef SWIVEL_CACHE_SPEC_H_
#define SWIVEL_CACHE_SPEC_H_

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"
#include "cache/packed_store.h"
#include "codec/codec.h"

namespace swivel {

// The basis in which keys are packed. kNone: the codec's own frame, row by row. The others pack groups as a whole (codec/segments.h):
// kHadamard signs + Hadamard, kDiagonal equalised channels before it, kFull a matrix for each head.
enum class Transform : uint8_t { kNone, kHadamard, kDiagonal, kFull };

// Groups that `age` tokens have been written after are packed again with `bits` bits.
struct DecayStep {
  int64_t age = 0;
  int bits = 0;
  friend bool operator==(const DecayStep&, const DecayStep&) = default;
};

// Another codec for one side of the layers first … last, of all their KV heads or of first_head … last_head.
struct LayerCodec {
  static constexpr int kAllHeads = -1;
  int first = 0, last = 0;
  Side side = Side::kKey;
  CodecId codec = CodecId::kTurbo4;
  int first_head = kAllHeads, last_head = kAllHeads;

  bool OfHeads() const { return first_head != kAllHeads; }
  friend auto operator<=>(const LayerCodec&, const LayerCodec&) = default;
};

struct CacheSpec {
  CodecId k = CodecId::kTurbo4;
  CodecId v = CodecId::kTurbo4;
  std::optional<ScaleMode> k_scale, v_scale;  // without: the default of each codec
  int boundary_layers = 0;                    // the first and the last n layers that have a cache use boundary_codec for K and V
  CodecId boundary_codec = CodecId::kQ8_0;
  // They win over boundary_layers, and those of heads over those of whole layers. Sorted; else no two of a side overlap. Numbers that the model
  // has no layer or no head for mean nothing.
  std::vector<LayerCodec> layers;

  Transform transform = Transform::kNone;
  bool group_mean = true;  // subtract the mean of each group's keys
  // Subtract the calibrated mean of the keys; not with kHadamard, which needs no calibration. Without: where there are no means of groups, to
  // which it adds nothing on any model measured (docs/quality.md).
  std::optional<bool> mean;
  bool halves = true;      // kFull: two segments with bits of their own
  int sinks = 0;           // the first tokens of a sequence stay exact
  int window = 0;          // so do the last ones, at least
  std::vector<DecayStep> decay;  // ascending ages, falling bits
  bool defer_prefill = false;    // pack nothing while a prompt comes in
  uint64_t budget_bytes = 0;     // of the whole cache; old groups decay as far as it asks; 0: none
  std::string calibration = "self";  // or the path of a calibration file
  int self_tokens = 0;               // with "self": the tokens it takes; 0: as many as the width wants
  std::string store;                 // with "self": the file that keeps the statistics from run to run; empty: none
  std::optional<double> shrink;      // factor on off-diagonal moments; without: .3 for self-calibration, .5 for a file
  double sparse_v = 0.0;             // what attention may leave out of V, as a share of the weights (kernel/attend/attend.h); 0: nothing

  // The codec of one layer; `ordinal` counts the `num_layers` layers that have a cache from 0.
  CodecId CodecFor(Side side, int ordinal, int num_layers) const;
  // The same for one KV head, which may differ from its layer.
  CodecId CodecFor(Side side, int ordinal, int num_layers, int head) const;
  bool HasHeadCodecs() const;
  ScaleMode ScaleFor(Side side, const Codec& codec) const { return (side == Side::kKey ? k_scale : v_scale).value_or(codec.default_scale); }

  // Rows are kept exact before they are packed (cache/layer_cache.h). A codec that encodes groups needs it.
  bool Staged() const { return transform != Transform::kNone || sinks > 0 || window > 0 || EncodesGroups(); }
  // One of the codecs does.
  bool EncodesGroups() const;
  // Rows of a full stream of so many cells that have no packed copy: the window, and the group that is being filled (sinks are a few); all where
  // the basis of keys of `width` (0: not known) takes as many.
  int64_t ExactRows(int64_t cells, int width = 0) const {
    if (!Staged()) return 0;
    const bool all = SelfCalibrated() && width > 0 && cells <= SelfTokens(width, cells);
    return all ? cells : std::min<int64_t>(cells, window + kGroupTokens);
  }
  bool TakesMean() const { return mean.value_or(!group_mean); }
  // Keys need statistics of the model before they can be packed.
  bool Calibrated() const { return transform == Transform::kDiagonal || transform == Transform::kFull; }
  // From the first tokens that a context sees.
  bool SelfCalibrated() const { return Calibrated() && calibration == "self"; }
  // How many: 512 are worth more than 128 (docs/quality.md), and a matrix of `width` x `width` wants at least two for each coordinate. A stream of
  // few `cells` cannot wait so long: a sliding window, or a short context, of which something is to be packed.
  int SelfTokens(int width, int64_t cells) const {
    const int64_t wanted = self_tokens > 0 ? self_tokens : std::max(512, 2 * width);
    return static_cast<int>(std::min(wanted, std::max<int64_t>(cells - kGroupTokens, 2 * width)));
  }
  // A layer's rows of this codec are packed by groups.
  bool PacksGroups(const Codec& codec) const { return transform != Transform::kNone && codec.layout == Layout::kTrellis; }
  // Keys in this codec lose much where they have large means, as a bias makes them: nothing takes the means away, or a rotation spreads what is
  // left of them over all coordinates.
  bool LosesKeyBias(const Codec& codec) const;
  SegmentLayout Segments(Side side, const Codec& codec, int width) const;

  // The codecs that a side's groups decay to, one step after the other: down to 2 bits where there is a budget, else as `decay` says. And the
  // ages at which they do, negative where only a budget asks for it.
  std::vector<const Codec*> DecayCodecs(const Codec& codec) const;
  std::vector<int64_t> DecayAges(const Codec& codec) const;

  // An empty store for one side of a layer. Errors: those of the stores.
  StatusOr<std::unique_ptr<PackedStore>> MakeStore(Side side, const Codec& codec, const StoreShape& shape) const;

  // Canonical text: ParseSpec(ToString()) gives the same spec.
  std::string ToString() const;
  // Bytes of a group of 128 packed rows of one head.
  size_t GroupBytes(Side side, const Codec& codec, int width) const;
  // Bits a packed value, everything counted: of one codec, of one side of a layer of `num_heads` KV heads, and the mean of K and V over all layers.
  double BitsOf(Side side, const Codec& codec, int width) const;
  double BitsOfLayer(Side side, int ordinal, int num_layers, int width, int num_heads) const;
  double BitsPerValue(int k_width, int v_width, int num_layers, int num_heads = 1) const;
};

// The spec where none is given.
inline constexpr const char* kDefaultSpec = "balanced";

StatusOr<CacheSpec> ParseSpec(std::string_view text);
// One paragraph that states the grammar with every accepted name, for --help and errors.
std::string SpecHelp();

struct SpecPreset {
  const char* name;
  const char* spec;
};
std::span<const SpecPreset> SpecPresets();

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_H_
