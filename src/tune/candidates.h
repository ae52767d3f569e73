// What the search may try: pairs of widths, changes of policy, bits spent on layers.
#ifndef SWIVEL_TUNE_CANDIDATES_H_
#define SWIVEL_TUNE_CANDIDATES_H_

#include <string>
#include <vector>

#include "cache/spec.h"
#include "tune/search.h"

namespace swivel {

inline constexpr int kTuneWidths[] = {2, 3, 4};
CodecId Tcq(int bits);
int BitsOfTcq(CodecId id);

struct NamedSpec {
  std::string change;  // for people: what it is, or what it changes
  CacheSpec spec;
};

// "K4 in 0-5".
std::string LayersText(const char* side, int bits, int first, int last);
// `spec` with these instead of its own.
CacheSpec WithLayers(CacheSpec spec, std::vector<LayerCodec> layers);

class Candidates {
 public:
  explicit Candidates(const TuneProblem& problem) : problem_(problem) {}

  // Within the limit on size; always true under a limit on KLD.
  bool Fits(const TuneCost& cost) const;
  bool Fits(const CacheSpec& spec) const;

  // The default with other codecs.
  CacheSpec Pair(int k, int v) const;
  // With the calibration that was asked for.
  CacheSpec Preset(const SpecPreset& preset) const;
  // One change each, the most promising first.
  std::vector<NamedSpec> Policies(const CacheSpec& base) const;
  // Spends what the limit leaves on layers: as many as fit get one bit more on one side. Where nothing is left, a sixth of the layers gives a
  // bit and another sixth gets it.
  std::vector<NamedSpec> Layers(const CacheSpec& base) const;

 private:
  const TuneProblem& problem_;
};

}  // namespace swivel

#endif  // SWIVEL_TUNE_CANDIDATES_H_
