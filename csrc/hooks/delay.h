#pragma once

#include <chrono>
#include <cstdint>
#include <string>

namespace streamguard::hooks {

/// A place in a stream where what was issued later is held back for a while.
///
/// On the virtual GPU the stream is held until `end_delay`, by its runtime: only what waits for it
/// makes it run. On a GPU it stands still for `time`: in a kernel of probes.cu, or without that in
/// a host function. REQUIRES of both calls: the stream's device is current, no lock is held.
struct Delayed {
  int device = 0;
  uint64_t handle = 0;
  std::chrono::microseconds time{0};
};

/// `probes`: the library made of csrc/cuda/probes.cu; empty where there is none.
void load_probes(const std::string& probes);

/// Returns: whether the stream is delayed.
bool begin_delay(const Delayed& stream);

/// Ends a delay that does not end by itself. `first`: a stream of this device whose work is to run
/// before that; null: none.
void end_delay(const Delayed& stream, const uint64_t* first);

}  // namespace streamguard::hooks
