// The JSON that "swivel_report" hands to programs: the tool and the tests read sizes and counters from it.
#include "plugin/report.h"

#include <algorithm>
#include <cstdio>
#include <locale>
#include <mutex>
#include <sstream>

#include "base/version.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/settings.h"

namespace swivel::plugin {

Totals Sum(const KvBuffer& buffer) {
  Totals sum;
  for (const auto& entry : buffer.tensors) {
    const KvTensor& tensor = *entry.second;
    ++sum.tensors;
    sum.width = std::max(sum.width, tensor.width());
    sum.streams = std::max(sum.streams, tensor.num_streams());
    sum.cells = std::max(sum.cells, tensor.num_cells());
    sum.f16_bytes += tensor.nominal_bytes();
    if (const LayerCache* layer = tensor.layer_cache(); layer != nullptr && tensor.side() == Side::kKey) {
      const LayerCache::Counts cells = layer->Count();
      ++sum.staged_layers;
      sum.calibrated_layers += tensor.basis() != nullptr && layer->packing_allowed();
      sum.staged.exact += cells.exact;
      sum.staged.packed += cells.packed;
      sum.staged.pinned += cells.pinned;
      sum.staged.groups_packed += cells.groups_packed;
      sum.staged.groups_decayed += cells.groups_decayed;
      sum.staged.batches_deferred += cells.batches_deferred;
      sum.live_bytes += layer->Bytes();
      sum.exact_bytes += layer->ExactResidentBytes();
    }
    if (!tensor.plain()) {
      ++sum.packed_tensors;
      sum.packed_bytes += tensor.PackedCapacityBytes();
      sum.packed_f16_bytes += tensor.nominal_bytes();
      sum.resident_bytes += tensor.PackedResidentBytes();
    }
  }
  sum.resident_bytes += sum.exact_bytes;
  sum.rows_written = static_cast<int64_t>(buffer.counters.rows_written);
  sum.rows_restored = static_cast<int64_t>(buffer.counters.rows_restored);
  sum.rows_read = static_cast<int64_t>(buffer.counters.rows_read);
  return sum;
}

void Totals::Add(const Totals& other) {
  tensors += other.tensors;
  packed_tensors += other.packed_tensors;
  width = std::max(width, other.width);
  streams = std::max(streams, other.streams);
  cells = std::max(cells, other.cells);
  packed_bytes += other.packed_bytes;
  packed_f16_bytes += other.packed_f16_bytes;
  resident_bytes += other.resident_bytes;
  f16_bytes += other.f16_bytes;
  exact_bytes += other.exact_bytes;
  live_bytes += other.live_bytes;
  staged_layers += other.staged_layers;
  calibrated_layers += other.calibrated_layers;
  staged.exact += other.staged.exact;
  staged.packed += other.staged.packed;
  staged.pinned += other.staged.pinned;
  staged.groups_packed += other.staged.groups_packed;
  staged.groups_decayed += other.staged.groups_decayed;
  rows_written += other.rows_written;
  rows_restored += other.rows_restored;
  rows_read += other.rows_read;
}

std::string TotalsLine(int context, const Totals& totals) {
  std::string line = "KV cache of context " + std::to_string(context) + " ends: " + std::to_string(totals.rows_written) + " rows written";
  if (totals.rows_restored > 0) line += ", " + std::to_string(totals.rows_restored) + " restored";
  if (totals.staged_layers > 0) {
    line +=
        ", " + std::to_string(totals.staged.groups_packed) + " groups packed, " + std::to_string(totals.staged.groups_decayed) + " decayed";
  }
  char sizes[96];
  constexpr double kMebibyte = 1048576.0;
  std::snprintf(sizes, sizeof(sizes), "; %.1f MiB packed, %.1f MiB exact, %.1f MiB as f16",
                static_cast<double>(totals.resident_bytes - totals.exact_bytes) / kMebibyte,
                static_cast<double>(totals.exact_bytes) / kMebibyte, static_cast<double>(totals.f16_bytes) / kMebibyte);
  return line + sizes;
}

Event TotalsEvent(int context, const Totals& totals) {
  Event event("context_end");
  event.Number("context", int64_t{context}).Number("rows_written", totals.rows_written).Number("rows_restored", totals.rows_restored);
  event.Number("rows_read", totals.rows_read)
      .Number("groups_packed", totals.staged.groups_packed)
      .Number("groups_decayed", totals.staged.groups_decayed);
  event.Number("packed_cells", totals.staged.packed).Number("exact_cells", totals.staged.exact);
  event.Number("packed_resident_bytes", static_cast<int64_t>(totals.resident_bytes - totals.exact_bytes));
  event.Number("exact_bytes", static_cast<int64_t>(totals.exact_bytes)).Number("f16_bytes", static_cast<int64_t>(totals.f16_bytes));
  return event;
}

namespace {

void Append(std::ostringstream& out, const KvBuffer& buffer) {
  const Totals sum = Sum(buffer);
  const double bits =
      sum.packed_f16_bytes == 0 ? 16.0 : 16.0 * static_cast<double>(sum.packed_bytes) / static_cast<double>(sum.packed_f16_bytes);
  out << "{\"context\":" << buffer.context << ",\"kv\":" << JsonText(buffer.spec.ToString()) << ",\"tensors\":" << sum.tensors
      << ",\"packed_tensors\":" << sum.packed_tensors << ",\"cells\":" << sum.cells << ",\"streams\":" << sum.streams
      << ",\"head_width\":" << sum.width << ",\"bits_per_value\":" << bits << ",\"packed_bytes\":" << sum.packed_bytes
      << ",\"resident_bytes\":" << sum.resident_bytes << ",\"f16_bytes\":" << sum.f16_bytes << ",\"set_rows\":" << buffer.counters.set_rows
      << ",\"flash_attention\":" << buffer.counters.flash_attention << ",\"shadow\":" << buffer.counters.shadow
      << ",\"rows_written\":" << sum.rows_written << ",\"rows_restored\":" << sum.rows_restored << ",\"rows_read\":" << sum.rows_read;
  if (buffer.spec.sparse_v > 0.0) out << ",\"v_rows\":" << buffer.counters.v_rows << ",\"sparse_v_rows\":" << buffer.counters.sparse_v_rows;
  if (sum.staged_layers > 0) {
    // Sums over the layers.
    out << ",\"staged_layers\":" << sum.staged_layers << ",\"calibrated_layers\":" << sum.calibrated_layers
        << ",\"exact_bytes\":" << sum.exact_bytes << ",\"packed_cells\":" << sum.staged.packed << ",\"sinks_cells\":" << sum.staged.pinned
        << ",\"window_cells\":" << sum.staged.exact - sum.staged.pinned << ",\"groups_packed\":" << sum.staged.groups_packed
        << ",\"decay_groups\":" << sum.staged.groups_decayed << ",\"defer_batches\":" << sum.staged.batches_deferred << ",\"budget_bytes_used\":" << sum.live_bytes;
  }
  out << "}";
}

}  // namespace

std::string KvCaches::Report() {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << "{\"version\":\"" << SWIVEL_VERSION << "\",\"ggml\":\"" << host().ggml_version() << "\",\"api\":" << host().api_version
      << ",\"kernels\":\"" << TargetName(kernels().target) << "\",\"kv\":" << JsonText(CurrentSpec().ToString()) << ",\"caches\":[";
  std::lock_guard lock(mutex_);
  bool first = true;
  for (const KvBuffer* buffer : buffers_) {
    if (buffer->tensors.empty()) continue;
    if (!first) out << ",";
    first = false;
    Append(out, *buffer);
  }
  out << "]}";
  return out.str();
}

}  // namespace swivel::plugin
