#pragma once

#include <cstdint>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/ids.h"

namespace streamguard::detection {

/// Which blocks an asynchronous collective keeps alive.
///
/// ProcessGroupNCCL holds the tensors of such a call until its work is waited for, or, if nobody
/// waits, until its watchdog has seen the end (torch 2.14, shelvesToUnstash_). So a block that is
/// freed although nobody waited for its last collective proves that the collective is complete.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Memory: bounded by the live blocks and by the events, which torch reuses.
class AsynchronousWorks {
 public:
  /// A collective that keeps `blocks` was issued; its work is waited for through one of `events`.
  /// Without events nobody could tell whether it is waited for (inside a coalescing group).
  void add(const std::vector<core::AllocationId>& blocks, const std::vector<core::EventId>& events);
  void note_wait(core::EventId event);
  void note_event_deletion(core::EventId event) { by_event_.erase(event); }

  /// `block` is freed. Returns: whether a collective kept it until its end.
  bool take_kept_until_end(core::AllocationId block) { return keepers_.erase(block) != 0; }

  /// `work` ends when `events` are complete; an earlier work at that address is gone.
  void note_end(const void* work, std::vector<core::EventId> events) {
    ends_[work] = std::move(events);
  }
  /// Events whose completion is the end of `work`; none for a work that was not observed.
  const std::vector<core::EventId>& end_of(const void* work) { return ends_[work]; }

  void clear();

 private:
  using Keeper = uint64_t;
  struct Work {
    Keeper keeper;
    std::vector<core::AllocationId> blocks;
  };

  Keeper newest_ = 0;
  std::map<core::AllocationId, Keeper> keepers_;  // the last collective, if nobody waited for it
  std::map<core::EventId, Work> by_event_;        // the last work whose end the event marks
  // Bounded by the works alive at one time: their addresses are used again.
  std::unordered_map<const void*, std::vector<core::EventId>> ends_;
};

}  // namespace streamguard::detection
