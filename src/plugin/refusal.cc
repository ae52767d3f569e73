#include "plugin/refusal.h"

#include <set>

#include "plugin/log.h"

namespace swivel::plugin {
namespace {

struct Pending {
  bool active = false;
  RefusedBy by = RefusedBy::kGraph;
  std::set<std::string> said;  // printed already; the memory-fit step meets the same reasons several times
};

thread_local Pending pending;

}  // namespace

void Refuse(RefusedBy by, const std::string& reason) {
  if (pending.said.insert(reason).second) Say(reason, Event("refused"));
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
