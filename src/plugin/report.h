// Figures of live caches: for the JSON of "swivel_report", the line at the end of a context and the events.
#ifndef SWIVEL_PLUGIN_REPORT_H_
#define SWIVEL_PLUGIN_REPORT_H_

#include <cstddef>
#include <cstdint>
#include <string>

#include "cache/layer_cache.h"
#include "plugin/event_log.h"

namespace swivel::plugin {

struct KvBuffer;

// Sums over the tensors of a buffer, or over the buffers of a context.
struct Totals {
  int tensors = 0, packed_tensors = 0, width = 0, streams = 0;
  int64_t cells = 0;
  size_t packed_bytes = 0, packed_f16_bytes = 0, resident_bytes = 0, f16_bytes = 0, exact_bytes = 0, live_bytes = 0;
  int staged_layers = 0, calibrated_layers = 0;
  LayerCache::Counts staged;
  int64_t rows_written = 0, rows_restored = 0, rows_read = 0;  // of K and V, all layers

  void Add(const Totals& other);
};

// The caller holds the caches' lock.
Totals Sum(const KvBuffer& buffer);

// "KV cache of context 1: 61440 rows written, …", for people; and the same as an event.
std::string TotalsLine(int context, const Totals& totals);
Event TotalsEvent(int context, const Totals& totals);

}  // namespace swivel::plugin

#endif  // SWIVEL_PLUGIN_REPORT_H_
