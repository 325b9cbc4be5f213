#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "hooks/detector.h"

namespace streamguard::hooks {

/// Which ops are looked at: those of every n-th step, on streams of some names. Records, waits and
/// blocks are always followed, and collectives always looked at, so what is left out can hide a
/// race and never make one.
///
/// Thread safety: `set` before the ops that it is to hold for, the others from anywhere.
class Sampling {
 public:
  static Sampling& get();

  /// `every`: 1 for all steps. `streams`: patterns of stream names, none for all.
  void set(uint64_t every, std::vector<std::string> streams);
  /// Steps before the first, -1, are looked at.
  void set_step(int64_t step);

  /// Whether an op on `stream` is looked at; the host is kNoStream. REQUIRES: `state` is held.
  bool wants(const detection::DetectorState& state, core::StreamId stream);

  uint64_t ops_of_other_steps() const { return ops_of_other_steps_.load(); }
  uint64_t ops_on_other_streams() const { return ops_on_other_streams_.load(); }

 private:
  Sampling() = default;

  std::atomic<bool> leaves_step_out_{false};
  std::atomic<uint64_t> every_{1};
  std::atomic<uint64_t> ops_of_other_steps_{0};
  std::atomic<uint64_t> ops_on_other_streams_{0};
  std::vector<std::string> streams_;
};

}  // namespace streamguard::hooks
