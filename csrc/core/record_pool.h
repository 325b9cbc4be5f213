// Storage of the accesses that the shadow memory still refers to.
#ifndef STREAMGUARD_CORE_RECORD_POOL_H_
#define STREAMGUARD_CORE_RECORD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <vector>

#include "core/ids.h"
#include "core/race.h"

namespace streamguard::core {

using RecordIndex = StrongId<struct RecordTag, std::uint32_t>;

// Access records shared by the cells they touch, counted, reused when the last cell lets go.
//
// Thread safety: none.
// Invariants:
//   1. A record with holders keeps its index and its address.
// Cost: all calls O(1); no heap allocation once the high-water mark is reached.
class RecordPool {
 public:
  // The new record has one holder: the caller.
  RecordIndex add(const AccessRecord& record) {
    if (free_.empty()) {
      slots_.push_back({record, 1});
      return RecordIndex{static_cast<std::uint32_t>(slots_.size() - 1)};
    }
    const RecordIndex reused = free_.back();
    free_.pop_back();
    slots_[reused.value] = {record, 1};
    return reused;
  }
  void hold(RecordIndex index) { ++slots_[index.value].holders; }
  void release(RecordIndex index) {
    if (--slots_[index.value].holders == 0) free_.push_back(index);
  }
  const AccessRecord& at(RecordIndex index) const { return slots_[index.value].record; }
  std::size_t size() const { return slots_.size() - free_.size(); }

 private:
  struct Slot {
    AccessRecord record;
    std::uint32_t holders;
  };

  std::deque<Slot> slots_;
  std::vector<RecordIndex> free_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RECORD_POOL_H_
