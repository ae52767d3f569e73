// Fields of a few bits in a string of bytes, lowest bits first.
#ifndef SWIVEL_CODEC_BITS_H_
#define SWIVEL_CODEC_BITS_H_

#include <cstdint>

namespace swivel {

// Writes fields one after the other. Whole bytes are written, the last one by Finish with zeros above its fields.
class BitWriter {
 public:
  explicit BitWriter(uint8_t* at) : at_(at) {}
  void Put(uint32_t field, int bits) {
    pending_ |= field << count_;
    for (count_ += bits; count_ >= 8; count_ -= 8, pending_ >>= 8) *at_++ = static_cast<uint8_t>(pending_);
  }
  void Finish() {
    if (count_ > 0) *at_ = static_cast<uint8_t>(pending_);
  }

 private:
  uint8_t* at_;
  uint32_t pending_ = 0;
  int count_ = 0;
};

// Reads them; never beyond the byte that holds the last field's last bit.
class BitReader {
 public:
  explicit BitReader(const uint8_t* at) : at_(at) {}
  int Get(int bits) {
    for (; count_ < bits; count_ += 8) pending_ |= static_cast<uint32_t>(*at_++) << count_;
    const int field = static_cast<int>(pending_ & ((1u << bits) - 1));
    pending_ >>= bits;
    count_ -= bits;
    return field;
  }

 private:
  const uint8_t* at_;
  uint32_t pending_ = 0;
  int count_ = 0;
};

inline void PutU16(uint8_t* at, uint16_t value) {
  at[0] = static_cast<uint8_t>(value & 0xff);
  at[1] = static_cast<uint8_t>(value >> 8);
}
inline uint16_t GetU16(const uint8_t* at) { return static_cast<uint16_t>(at[0] | at[1] << 8); }

}  // namespace swivel

#endif  // SWIVEL_CODEC_BITS_H_
