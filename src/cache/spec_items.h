// The grammar of specs by its items, for those who read them from elsewhere than one line of text.
#ifndef SWIVEL_CACHE_SPEC_ITEMS_H_
#define SWIVEL_CACHE_SPEC_ITEMS_H_

#include <string>
#include <string_view>

#include "base/status.h"
#include "cache/spec.h"

namespace swivel {

// Applies one item: "name=value", or a bare preset, file or codec, which replaces what it sets. A value may hold anything here, commas too.
// kInvalidArgument names it and what is accepted; a file gives the errors of ReadSpecFile.
Status ApplySpecItem(std::string_view item, CacheSpec* spec);

// What items change, by what of it they say. Without a codec, a preset or a file that is the default; a codec of one side alone says nothing of the
// other, and no default for it would be what everybody expects.
struct SpecBase {
  bool whole = false, k = false, v = false;  // a bare name; k=; v=

  void Add(std::string_view key, bool bare) {
    whole |= bare;
    k |= key == "k";
    v |= key == "v";
  }
  CacheSpec Start() const;
  // kInvalidArgument when one side has no codec.
  Status Check() const;
};

// After the last item: what single items cannot know.
Status CheckSpec(const CacheSpec& spec);

// Names of all keys, joined by ", ".
std::string SpecKeys();
bool IsSpecKey(std::string_view name);

// The value of calibration= for self-calibration of so many tokens: "self:N". Everything else but "self" is a path.
inline constexpr std::string_view kSelfTokensPrefix = "self:";

}  // namespace swivel

#endif  // SWIVEL_CACHE_SPEC_ITEMS_H_
