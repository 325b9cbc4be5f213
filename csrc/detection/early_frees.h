#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <tuple>
#include <vector>

#include "core/race.h"

namespace streamguard::detection {

/// SG101: blocks that were freed while another stream's access was not ordered before what their
/// owner's stream does next. Whether their bytes are used again too early depends on which block
/// the allocator hands out, and so on timing.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Memory: bounded by the number of distinct ops and lines in the program.
class EarlyFrees {
 public:
  struct EarlyFree {
    core::AccessRecord access;  // newest of the first such block
    core::StreamId owner;
    int64_t step;  // -1: none was set
    uint64_t count;
  };

  /// `access` was not ordered before `owner` when its block was freed.
  void add(const core::AccessRecord& access, core::StreamId owner, int64_t step);
  const std::deque<EarlyFree>& all() const { return all_; }

 private:
  using Key = std::tuple<core::LabelId, core::SiteId, core::StreamId, core::StreamId>;

  std::map<Key, size_t> by_key_;
  std::deque<EarlyFree> all_;
};

}  // namespace streamguard::detection
