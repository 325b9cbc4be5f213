#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/race.h"

namespace streamguard::hooks {

/// Distinct findings, each with the data of its first occurrence.
///
/// Two races are the same finding when kind, domain, both ops, both source lines and both streams
/// agree; which bytes and which step may differ, or a loop would flood the report. Of the accesses
/// to one new block that race with the same access to the bytes' last block, only the first is
/// kept: the block was handed out too early once, whoever uses it then.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Memory: bounded by the number of distinct pairs of lines in the program.
class FindingStore {
 public:
  struct Finding {
    int id;  // position, from 0
    core::Race race;
    int64_t step;  // -1: none was set
    uint64_t count;
  };

  void add(const core::Race& race, int64_t step);
  const std::deque<Finding>& all() const { return findings_; }

  /// Ids that were not handed out yet, each once.
  std::vector<int> take_unannounced();

 private:
  using Key = std::tuple<core::Race::Kind, core::Race::Domain, core::LabelId, core::LabelId,
                         core::SiteId, core::SiteId, core::StreamId, core::StreamId>;

  /// Whether an earlier race said that this access met this block.
  bool is_known_reuse(const core::Race& race);

  // The newest pairs are enough: accesses to a block follow its allocation closely.
  static constexpr size_t kReusesKept = 4096;

  std::set<std::pair<core::OpId, core::AllocationId>> reuses_;
  std::map<Key, int> by_key_;
  std::deque<Finding> findings_;
  size_t announced_ = 0;
};

}  // namespace streamguard::hooks
