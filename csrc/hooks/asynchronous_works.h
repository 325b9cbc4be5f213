#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "core/ids.h"

namespace streamguard::hooks {

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
};

}  // namespace streamguard::hooks
