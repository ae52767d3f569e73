// Which encoder serves a codec.

void EncodeRow(const Codec& codec, const float* row, int width, Side side, ScaleMode mode, uint8_t* group, int token) {
  if (codec.layout == Layout::kTrellis) {
    const uint16_t scale = EncodeTrellis(codec.code_bits, Frame::kSignedHadamard, row, width, side, mode, group, token);
    std::memcpy(group + ScalesOffset(codec.code_bits, width) + 2 * token, &scale, 2);
    return;
  }
  if (codec.layout != Layout::kPlanes || !codec.nearest_levels) return codec.encode(row, width, side, mode, group, token);
  switch (codec.code_bits) {
    case 2:
      return EncodeTableRow<2>(codec, row, width, side, mode, group, token);
    case 3:
      return EncodeTableRow<3>(codec, row, width, side, mode, group, token);
    default:
      return EncodeTableRow<4>(codec, row, width, side, mode, group, token);
  }
}
