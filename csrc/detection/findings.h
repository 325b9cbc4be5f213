#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

#include "core/race.h"

namespace streamguard::detection {

/// Of a pair that inserted waits keep apart: what they met.
struct InsertedWaits {
  uint64_t running = 0;  // waits whose awaited work was not over when they were put in
  uint64_t timed = 0;
  double waited_ms = 0;  // device time, over the timed ones
};

/// Of a pair that was tried with its first op delayed.
struct Tries {
  uint64_t count = 0;
  uint64_t showing = 0;         // tries in which bytes were changed
  uint64_t compared_bytes = 0;  // of the first such try, else of the last
  uint64_t changed_bytes = 0;
};

/// Distinct findings, each with the data of its first occurrence.
///
/// Two races are the same finding when kind, domain, both ops, both source lines and both streams
/// agree; which bytes and which step may differ, or a loop would flood the report. Where a report
/// is filtered by such facts, a pair has a finding for each of its places, up to kMostPlaces, and
/// one for the rest. Of the accesses
/// to one new block that race with the same access to the bytes' last block, only the first is
/// kept: the block was handed out too early once, whoever uses it then.
///
/// Thread safety: none; the detector's mutex serialises all calls.
/// Memory: bounded by the number of distinct pairs of lines in the program, and kMostFindings.
class FindingStore {
 public:
  static constexpr size_t kMostFindings = 10'000;
  static constexpr size_t kMostPlaces = 256;
  static constexpr uint64_t kAnyPlace = 0;

  struct Finding {
    int id;  // position, from 0
    core::Race race;
    int64_t step;  // -1: none was set
    uint64_t count;
    std::optional<InsertedWaits> inserted;
    std::optional<Tries> tries;
    int pair = id;         // the first finding of the same pair
    bool is_rest = false;  // of the places beyond kMostPlaces
  };

  /// `place`: what tells occurrences of one pair apart.
  void add(const core::Race& race, int64_t step, uint64_t place = kAnyPlace);
  /// A wait was put in that orders these pairs, which would have raced. Counts it once for each
  /// distinct pair. Returns: their ids.
  std::vector<int> add_inserted_wait(const std::vector<core::Race>& races, int64_t step,
                                     bool is_awaited_running);
  void add_waiting_time(int finding, double waited_ms);
  /// The pair is to be tried; without that it has no count of tries.
  void begin_tries(int finding);
  void add_try(int finding, uint64_t compared_bytes, uint64_t changed_bytes);
  /// Races and inserted waits of pairs beyond the first kMostFindings, which are only counted.
  uint64_t left_out() const { return left_out_; }
  bool has_unannounced() const { return announced_ < findings_.size(); }
  const std::deque<Finding>& all() const { return findings_; }

  /// Ids that were not handed out yet, each once.
  std::vector<int> take_unannounced();

 private:
  using Key = std::tuple<core::Race::Kind, core::Race::Domain, core::LabelId, core::LabelId,
                         core::SiteId, core::SiteId, core::StreamId, core::StreamId, bool>;
  using Places = std::map<uint64_t, int>;

  // Null, and counted, when the pair is new and the store is full.
  Finding* find_or_add(const core::Race& race, int64_t step, bool is_inserted, uint64_t place);

  /// Whether an earlier race said that this access met this block.
  bool is_known_reuse(const core::Race& race);

  // The newest pairs are enough: accesses to a block follow its allocation closely.
  static constexpr size_t kReusesKept = 4096;

  std::set<std::pair<core::OpId, core::AllocationId>> reuses_;
  std::map<Key, Places> by_key_;
  std::deque<Finding> findings_;
  size_t announced_ = 0;
  uint64_t left_out_ = 0;
};

}  // namespace streamguard::detection
