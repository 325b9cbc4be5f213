#include "detection/asynchronous_works.h"

namespace streamguard::detection {

void AsynchronousWorks::add(const std::vector<core::AllocationId>& blocks,
                            const std::vector<core::EventId>& events) {
  if (events.empty()) {
    for (const core::AllocationId block : blocks) keepers_.erase(block);
    return;
  }
  ++newest_;
  for (const core::AllocationId block : blocks) keepers_[block] = newest_;
  for (const core::EventId event : events) by_event_[event] = {newest_, blocks};
}

void AsynchronousWorks::note_wait(core::EventId event) {
  const auto found = by_event_.find(event);
  if (found == by_event_.end()) return;
  for (const core::AllocationId block : found->second.blocks) {
    const auto keeper = keepers_.find(block);
    if (keeper != keepers_.end() && keeper->second == found->second.keeper) keepers_.erase(keeper);
  }
  by_event_.erase(found);
}

void AsynchronousWorks::clear() {
  keepers_.clear();
  by_event_.clear();
  ends_.clear();
}

}  // namespace streamguard::detection
