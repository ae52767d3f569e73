// The JSON that "swivel_report" hands to programs: the tool and the tests read sizes and counters from it.
#include <locale>
#include <mutex>
#include <sstream>

#include "base/version.h"
#include "plugin/host.h"
#include "plugin/kv_caches.h"
#include "plugin/settings.h"

namespace swivel::plugin {
namespace {

struct Totals {
  int tensors = 0, packed_tensors = 0, width = 0, streams = 0;
  int64_t cells = 0;
  size_t packed_bytes = 0, packed_f16_bytes = 0, resident_bytes = 0, f16_bytes = 0, exact_bytes = 0, live_bytes = 0;
  int staged_layers = 0, calibrated_layers = 0;
  LayerCache::Counts staged;
};

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
      sum.live_bytes += layer->Bytes();
      sum.exact_bytes += layer->ExactResidentBytes();
    }
    if (const PackedStore* store = tensor.store(); store != nullptr) {
      ++sum.packed_tensors;
      sum.packed_bytes += store->CapacityBytes();
      sum.packed_f16_bytes += tensor.nominal_bytes();
      sum.resident_bytes += store->ResidentBytes();
    }
  }
  return sum;
}

void Append(std::ostringstream& out, const KvBuffer& buffer) {
  const Totals sum = Sum(buffer);
  const double bits =
      sum.packed_f16_bytes == 0 ? 16.0 : 16.0 * static_cast<double>(sum.packed_bytes) / static_cast<double>(sum.packed_f16_bytes);
  out << "{\"context\":" << buffer.context << ",\"kv\":\"" << buffer.spec.ToString() << "\",\"tensors\":" << sum.tensors
      << ",\"packed_tensors\":" << sum.packed_tensors << ",\"cells\":" << sum.cells << ",\"streams\":" << sum.streams
      << ",\"head_width\":" << sum.width << ",\"bits_per_value\":" << bits << ",\"packed_bytes\":" << sum.packed_bytes
      << ",\"resident_bytes\":" << sum.resident_bytes + sum.exact_bytes << ",\"f16_bytes\":" << sum.f16_bytes << ",\"set_rows\":" << buffer.counters.set_rows
      << ",\"flash_attention\":" << buffer.counters.flash_attention << ",\"shadow\":" << buffer.counters.shadow;
  if (buffer.spec.sparse_v > 0.0) out << ",\"v_rows\":" << buffer.counters.v_rows << ",\"sparse_v_rows\":" << buffer.counters.sparse_v_rows;
  if (sum.staged_layers > 0) {
    // Sums over the layers.
    out << ",\"staged_layers\":" << sum.staged_layers << ",\"calibrated_layers\":" << sum.calibrated_layers << ",\"exact_bytes\":" << sum.exact_bytes
        << ",\"packed_cells\":" << sum.staged.packed << ",\"sinks_cells\":" << sum.staged.pinned
        << ",\"window_cells\":" << sum.staged.exact - sum.staged.pinned << ",\"groups_packed\":" << sum.staged.groups_packed
        << ",\"decay_groups\":" << sum.staged.groups_decayed << ",\"budget_bytes_used\":" << sum.live_bytes;
  }
  out << "}";
}

}  // namespace

std::string KvCaches::Report() {
  std::ostringstream out;
  out.imbue(std::locale::classic());
  out << "{\"version\":\"" << SWIVEL_VERSION << "\",\"ggml\":\"" << host().ggml_version() << "\",\"api\":" << host().api_version
      << ",\"kernels\":\"" << TargetName(kernels().target) << "\",\"kv\":\"" << CurrentSpec().ToString() << "\",\"caches\":[";
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
