#pragma once

#include <atomic>
#include <cstdint>
#include <string>

#include "collectives/record.h"

namespace streamguard::collectives {

/// The newest records of this process, in a file that is mapped shared: it survives SIGKILL.
///
/// Thread safety: all members may be called from any thread.
/// Invariants: (1) a slot whose `number` is n + 1 holds record n whole; (2) the mapping is never
/// undone, so a late writer finds it. Cost: about 20 ns a record.
class Ring {
 public:
  /// Maps `path` with room for `capacity` records, a power of two. Throws std::system_error.
  void open(const std::string& path, uint64_t capacity);

  bool is_open() const { return records_ != nullptr; }

  /// Copies the record into its slot. Returns its position. REQUIRES: is_open().
  uint64_t append(const Record& record);

  /// Stores from when to when the work of a record ran, unless its slot was reused since.
  void set_times(uint64_t position, uint64_t start_ns, uint64_t end_ns);

 private:
  Header* header_ = nullptr;
  Record* records_ = nullptr;
  uint64_t mask_ = 0;
};

}  // namespace streamguard::collectives
