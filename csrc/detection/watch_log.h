#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "core/race.h"

namespace streamguard::detection {

/// The accesses to watched regions, repeats counted.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Invariant: an access is listed with earlier accesses to the same block only.
/// Memory: bounded by watched names times distinct lines and orders of access.
class WatchLog {
 public:
  struct Entry {
    std::string name;
    uint64_t offset_begin;  // bytes within the watched range
    uint64_t offset_end;
    core::WatchedAccess first;  // the first of the repeats
    int64_t step;
    uint64_t count;
  };

  /// Watching the same bytes under the same name again changes nothing.
  void watch(core::ByteRange range, const std::string& name);
  /// The block `bytes` was freed: what comes there next is not what was watched.
  /// Returns: the ranges that are watched no longer.
  std::vector<core::ByteRange> end_within(core::ByteRange bytes);
  bool is_empty() const { return ranges_.empty(); }
  void add(core::WatchedAccess access, int64_t step);
  const std::deque<Entry>& entries() const { return entries_; }

 private:
  struct Watched {
    core::ByteRange range;
    std::string name;
  };
  using Order = std::tuple<core::LabelId, core::AccessKind, core::StreamId, core::OrderEdge::Kind,
                           core::StreamId>;
  using Key = std::tuple<std::string, core::LabelId, core::SiteId, core::StreamId, core::AccessKind,
                         uint64_t, uint64_t, std::vector<Order>>;

  std::vector<Watched> ranges_;
  std::map<Key, size_t> by_key_;
  std::deque<Entry> entries_;
};

}  // namespace streamguard::detection
