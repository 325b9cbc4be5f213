#pragma once

#include <cstdint>
#include <deque>
#include <map>

#include "core/ids.h"

namespace streamguard::detection {

/// In which module of the program each host thread was when it issued an op. Modules are numbers
/// that Python gives them; 0 is none.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Memory: bounded, kMostChanges for each thread; an op before the oldest is in no module.
class ModuleLog {
 public:
  static constexpr size_t kMostChanges = 1 << 16;

  /// Ops of `thread` after `newest` are in `module`.
  void enter(core::HostThreadId thread, core::OpId newest, uint32_t module);
  uint32_t at(core::HostThreadId thread, core::OpId op) const;

 private:
  struct Change {
    uint64_t after;
    uint32_t module;
  };

  std::map<uint32_t, std::deque<Change>> changes_;  // key: thread; oldest first
};

}  // namespace streamguard::detection
