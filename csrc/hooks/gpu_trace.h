#pragma once

#include <cstdint>

namespace streamguard::hooks {

/// Puts our sink into c10's GPUTrace slot and forwards to the one that was there.
///
/// May be called again after `uninstall_gpu_trace`. REQUIRES: the GIL is held.
void install_gpu_trace();

/// Puts back the very sink that was replaced. If somebody installed another one above ours
/// meanwhile, ours stays beneath it and only forwards.
void uninstall_gpu_trace();

// The same calls as the interposer sees them, where one is loaded (runtime_calls.cc). It hears of
// records and waits before torch traces them, of synchronizations after.

void note_raw_record(uint64_t event, uint64_t stream);
void note_raw_wait(uint64_t event, uint64_t stream);
void note_raw_event_sync(uint64_t event);
void note_raw_stream_sync(uint64_t stream);
void note_raw_device_sync();
/// Whether torch traced the synchronization that this thread has just ended; asks once.
bool was_sync_traced();

}  // namespace streamguard::hooks
