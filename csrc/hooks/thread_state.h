#pragma once

#include <cstdint>
#include <vector>

#include "core/access.h"
#include "core/ids.h"
#include "core/race.h"

namespace streamguard::hooks {

class OpScope;

/// What the hooks remember for one host thread.
///
/// Invariant: outlives its thread, because tensors of other thread-local objects are freed, and so
/// call our allocator hook, while the thread ends.
struct ThreadState {
  core::HostThreadId id;
  OpScope* scope = nullptr;     // the observed op this thread is in
  uint64_t observed_ops = 0;    // lets a composite op see whether an op inside it was observed
  uint64_t freed_just_now = 0;  // address of the last hook call, if that was FREE_REQUESTED
  bool is_free_told = false;    // of that block: nothing is left to do if it completes at once
  std::vector<core::AccessRecord> unordered_at_free;  // accesses to that block, and its owner
  core::StreamId owner_at_free = core::kNoStream;
  uint64_t last_record = 0;     // newest event this thread recorded
  uint64_t told_record = 0;     // event whose record the interposer told of, until torch traces it
  uint64_t told_wait = 0;       // the same for a wait
  bool is_scope_due = false;    // ... by a callback of CUPTI: the op it is in does not know yet
  bool is_sync_traced = false;  // torch traced a synchronization that has not ended yet
  int declared_depth = 0;       // inside that many `streamguard.access` blocks
  uint64_t declared_work = 0;   // launches and copies in such blocks, outside of any op
  int muted_depth = 0;          // inside calls whose launches are told of in another way
  bool is_announcing = false;   // inside the program's sink

  // Buffers of the current op, kept so that a steady state allocates nothing.
  std::vector<core::Access> accesses;
  std::vector<core::Access> accesses_of_device;
};

/// REQUIRES: the detector's mutex is not held.
ThreadState& this_thread();

/// Makes the next `this_thread` of this thread a new one, with a number of its own.
void forget_this_thread();

}  // namespace streamguard::hooks
