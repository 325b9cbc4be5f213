#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace streamguard::hooks {

/// What the preloaded interposer, or CUPTI, saw of the CUDA runtime, and what became of it.
struct RuntimeCounts {
  bool is_attached = false;
  uint64_t launches = 0;          // inside an op, which told what they touch
  uint64_t copies = 0;            // copies and fills inside an op
  uint64_t raw_copies = 0;        // copies and fills outside: ops of their own
  uint64_t untraced_records = 0;  // events that torch does not trace: its allocators', libraries'
  uint64_t untraced_waits = 0;
  uint64_t untraced_syncs = 0;
  uint64_t unused_queries = 0;  // that said "done" and were not Python's: they order nothing
  std::map<std::string, uint64_t> opaque_kernels;  // launches outside, by name
};

/// Attaches to the interposer if this process was started with it. Safe to call again.
void attach_runtime();

void detach_runtime();

/// Hears the same calls through CUPTI, unless the interposer tells of them.
///
/// REQUIRES: the GIL is not held. Returns: why they are not heard so; empty where they are.
std::string hear_through_cupti(const std::string& library);
/// REQUIRES: the GIL is not held.
void leave_cupti();

RuntimeCounts runtime_counts();

/// Held by nobody who takes another lock; for the thread that forks.
std::mutex& opaque_kernels_mutex();

// torch traces a record or a wait that the interposer has counted already.
void note_traced_record();
void note_traced_wait();
// Python tells of a successful query of this event or stream.
void note_told_query(uint64_t handle);

}  // namespace streamguard::hooks
