#include "detection/module_log.h"

#include <algorithm>
#include <iterator>

namespace streamguard::detection {

void ModuleLog::enter(core::HostThreadId thread, core::OpId newest, uint32_t module) {
  std::deque<Change>& changes = changes_[thread.value];
  if (!changes.empty() && changes.back().after == newest.value) {
    changes.back().module = module;
    return;
  }
  changes.push_back({newest.value, module});
  if (changes.size() > kMostChanges) changes.pop_front();
}

uint32_t ModuleLog::at(core::HostThreadId thread, core::OpId op) const {
  const auto found = changes_.find(thread.value);
  if (found == changes_.end()) return 0;
  const std::deque<Change>& changes = found->second;
  const auto next = std::partition_point(changes.begin(), changes.end(),
                                         [op](const Change& one) { return one.after < op.value; });
  return next == changes.begin() ? 0 : std::prev(next)->module;
}

}  // namespace streamguard::detection
