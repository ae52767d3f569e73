#include "plugin/refusal.h"

#include "plugin/log.h"

namespace swivel::plugin {
namespace {

struct Pending {
  bool active = false;
  RefusedBy by = RefusedBy::kGraph;
  std::string said;  // printed already; the memory-fit step meets the same reason several times
};

thread_local Pending pending;

}  // namespace

void Refuse(RefusedBy by, const std::string& reason) {
  if (pending.said != reason) Say(reason);
  pending.said = reason;
  pending.active = true;
  pending.by = by;
}

void ForgetGraphRefusal() {
  if (pending.by == RefusedBy::kGraph) pending.active = false;
}

bool TakeRefusal() {
  if (!pending.active) return false;
  pending = {};
  return true;
}

}  // namespace swivel::plugin
