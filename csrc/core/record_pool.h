// Storage of the accesses that the shadow memory still refers to.
#ifndef STREAMGUARD_CORE_RECORD_POOL_H_
#define STREAMGUARD_CORE_RECORD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/race.h"

namespace streamguard::core {

using RecordIndex = StrongId<struct RecordTag, std::uint32_t>;

// Access records shared by the cells they touch, counted, reused when the last cell lets go.
//
// Thread safety: none.
// Invariants:
//   1. A record with holders keeps its index; its address lasts until the next add.
// Cost: all calls O(1); no heap allocation once the high-water mark is reached.
class RecordPool {
 public:
  // The new record has one holder: the caller.
  RecordIndex add(const AccessRecord& record) {
    if (free_.empty()) {
      records_.push_back(record);
      holders_.push_back(1);
      return RecordIndex{static_cast<std::uint32_t>(records_.size() - 1)};
    }
    const RecordIndex reused = free_.back();
    free_.pop_back();
    records_[reused.value] = record;
    holders_[reused.value] = 1;
    return reused;
  }
  void hold(RecordIndex index) { ++holders_[index.value]; }
  void release(RecordIndex index) {
    if (--holders_[index.value] == 0) free_.push_back(index);
  }
  const AccessRecord& at(RecordIndex index) const { return records_[index.value]; }
  std::size_t size() const { return records_.size() - free_.size(); }

 private:
  std::vector<AccessRecord> records_;
  // Apart from the records: letting go of one must not load it.
  std::vector<std::uint32_t> holders_;
  std::vector<RecordIndex> free_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RECORD_POOL_H_
