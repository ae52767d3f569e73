#include "kernel/attend/reference.h"

#include <bit>
#include <cmath>
#include <limits>

#include "base/half.h"

namespace swivel {
namespace {

const char* AddBytes(const void* base, size_t bytes) { return static_cast<const char*>(base) + bytes; }

void DecodeCell(const KvView& view, Side side, int stream, int head, int64_t cell, float* row) {
  const uint8_t* group = view.base + stream * view.strides.stream + cell / kGroupTokens * view.strides.group + head * view.strides.head;
  DecodeRow(*view.codec, group, view.width, side, static_cast<int>(cell % kGroupTokens), row);
}

double SlopeOfHead(const AttendArgs& args, int head) {
  if (args.max_bias <= 0.0f) return 1.0;
  const int power = static_cast<int>(std::bit_floor(static_cast<unsigned>(args.num_heads)));
  if (head < power) return std::pow(std::exp2(-args.max_bias / power), head + 1);
  return std::pow(std::exp2(-args.max_bias / 2.0 / power), 2 * (head - power) + 1);
}

}  // namespace

std::vector<double> ReferenceAttendRow(const AttendArgs& args, int stream, int head, int query) {
  const int kv_head = head / (args.num_heads / args.num_kv_heads);
  const int kv_stream = args.first_stream + stream;
  const float* q = reinterpret_cast<const float*>(
      AddBytes(args.q, stream * args.q_stream_stride + head * args.q_head_stride + query * args.q_query_stride));
  const uint16_t* mask = nullptr;
  if (args.mask != nullptr) {
    mask = reinterpret_cast<const uint16_t*>(
        AddBytes(args.mask, stream * args.mask_stream_stride + head * args.mask_head_stride + query * args.mask_query_stride));
  }

  // Two passes: logits and their maximum, then the weighted sum.
  std::vector<float> row(std::max(args.k.width, args.v.width));
  std::vector<double> logits(args.num_cells, -std::numeric_limits<double>::infinity());
  double max = args.sinks != nullptr ? args.sinks[head] : -std::numeric_limits<double>::infinity();
  for (int64_t cell = 0; cell < args.num_cells; ++cell) {
    const double bias = mask != nullptr ? F32FromF16(mask[cell]) : 0.0;
    if (bias == -std::numeric_limits<double>::infinity()) continue;
    DecodeCell(args.k, Side::kKey, kv_stream, kv_head, cell, row.data());
    double product = 0.0;
    for (int i = 0; i < args.k.width; ++i) product += static_cast<double>(q[i]) * row[i];
    double logit = product * args.scale;
    if (args.logit_softcap > 0.0f) logit = args.logit_softcap * std::tanh(logit / args.logit_softcap);
    logits[cell] = logit + SlopeOfHead(args, head) * bias;
    max = std::isnan(logits[cell]) ? logits[cell] : std::max(max, logits[cell]);
  }
  std::vector<double> out(args.v.width, 0.0);
  double sum = args.sinks != nullptr && std::isfinite(max) ? std::exp(args.sinks[head] - max) : 0.0;
  for (int64_t cell = 0; cell < args.num_cells; ++cell) {
    if (logits[cell] == -std::numeric_limits<double>::infinity()) continue;
    DecodeCell(args.v, Side::kValue, kv_stream, kv_head, cell, row.data());
    const double weight = std::exp(logits[cell] - max);
    sum += weight;
    for (int i = 0; i < args.v.width; ++i) out[i] += weight * row[i];
  }
  if (sum != 0.0) {
    for (double& value : out) value /= sum;
  }
  return out;
}

}  // namespace swivel
