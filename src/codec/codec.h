// What a codec is: a byte layout for groups of 128 cached vectors and the scalar encode and decode that define it.
//
// Goals: one list of codecs (codecs.inc) that drives dispatch, tests, benches and help; bytes that do not depend on the machine.
// Non-goals: speed. The kernels in src/kernel are the fast twins and are tested against these functions.
//
// A *group* is the unit of storage: 128 cells (tokens) of one (layer, stream, KV head), K or V. A *frame* is the orthogonal basis in
// which a codec stores a vector; attention rotates the query into it once and rotates the output back once.
#ifndef SWIVEL_CODEC_CODEC_H_
#define SWIVEL_CODEC_CODEC_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "base/status.h"
#include "codec/token_mask.h"
#include "math/codebook.h"
#include "math/rotation.h"

namespace swivel {

inline constexpr int kMinHeadWidth = 32;
inline constexpr int kMaxHeadWidth = 576;

enum class Side { kKey, kValue };

// How the one scale of a row is chosen from y (the rotated row) and c (its code values); algorithms after DRIVE/EDEN:
//   matched        ||y|| / ||c||           keeps the norm
//   unbiased       ||y||^2 / <c, y>        makes <s c, y> = ||y||^2
//   least squares  <c, y> / ||c||^2        minimises ||y - s c||
enum class ScaleMode { kMatched, kUnbiased, kLeastSquares };
const char* ScaleModeName(ScaleMode mode);  // "matched", "unbiased", "ls"

enum class CodecId : uint8_t {
#define SWIVEL_CODEC(id, name, symbol) id,
#include "codec/codecs.inc"
#undef SWIVEL_CODEC
};

// How the bytes of a group are arranged; see docs/formats.md and the codec's own file.
// kRows: rows one after the other, [token][row bytes]; only the codec's own functions read them, attention decodes them to floats.
// kBlocks: likewise, but blocks of rows share something, so `encode_group` writes them.
enum class Layout : uint8_t { kF16, kBf16, kQ8_0, kQ4_0, kPlanes, kRows, kTrellis, kBlocks };

struct Codec {
  CodecId id;
  const char* name;
  const char* summary;  // one line for help and tables
  Frame key_frame, value_frame;
  Layout layout;
  int code_bits;       // bits of a code; 16 for f16 and bf16; kRows: of most codes, rounded down
  int width_multiple;  // the head width must be a multiple of this
  bool has_scale_mode;
  const float* levels;        // kPlanes: the 2^code_bits code values, ascending; else null
  const IntegerBooks* books;  // kPlanes: the same for integer kernels; else null

  // Attention multiplies whole numbers: levels by query bytes, levels by weights.
  bool has_integer_kernels() const { return layout == Layout::kPlanes || layout == Layout::kTrellis; }
  Frame frame(Side side) const { return side == Side::kKey ? key_frame : value_frame; }

  // Bytes of a group of kGroupTokens rows of `width` values, scales included; a multiple of 64.
  size_t (*group_bytes)(int width);
  // Encodes one row of `width` floats as row `token` (0..127) of a group; other rows are left as they are.
  // A row that holds a NaN or an infinity decodes to NaN: damage stays visible. Null where encode_group is set.
  void (*encode)(const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token);
  // Decodes one row in the codec's frame (no inverse rotation).
  void (*decode_in_frame)(const uint8_t* group, int width, Side side, int token, float* row);
  // Copies one packed row without decoding it. The groups may be the same. Null where encode_group is set: whole groups are copied.
  void (*copy_row)(const uint8_t* from_group, int from_token, int width, Side side, uint8_t* to_group, int to_token);

  // kPlanes: codes are the levels nearest to the row at norm sqrt(width), which is what the kernels' fast encoder finds. False: the
  // kernels call `encode`.
  bool nearest_levels = true;
  // The scale mode where a spec names none.
  ScaleMode default_scale = ScaleMode::kMatched;

  // Codecs that code neighbouring rows together have this instead of `encode` and `copy_row`. Encodes `tokens`, whose rows start
  // token * row_stride floats behind `rows`; rows of other tokens are not read. `packed` names the tokens that were encoded before: they
  // decode to what they did. Returns the tokens that could not be encoded: a NaN or an infinity inside, or out of the range of what was
  // chosen for the packed rows beside them. These must stay exact; what they decode to is finite and means nothing.
  TokenMask (*encode_group)(const float* rows, size_t row_stride, TokenMask tokens, TokenMask packed, int width, Side side,
                            uint8_t* group) = nullptr;
  bool encodes_groups() const { return encode_group != nullptr; }
};

// All codecs, in the order of codecs.inc.
std::span<const Codec* const> AllCodecs();
const Codec& GetCodec(CodecId id);
// kInvalidArgument for an unknown name; the message lists the accepted ones.
StatusOr<const Codec*> FindCodec(std::string_view name);
std::string CodecNames();  // "f16, bf16, …"

// kUnsupported with the reason when the codec cannot serve rows of `width` values.
Status CheckWidth(const Codec& codec, int width);

// Bits a value at `width`, everything counted.
double BitsPerValue(const Codec& codec, int width);

// Decodes one row into the model's own basis. `row` holds `width` floats.
void DecodeRow(const Codec& codec, const uint8_t* group, int width, Side side, int token, float* row);

}  // namespace swivel

#endif  // SWIVEL_CODEC_CODEC_H_
