// Storage of the accesses that the shadow memory still refers to.
#ifndef STREAMGUARD_CORE_RECORD_POOL_H_
#define STREAMGUARD_CORE_RECORD_POOL_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/ids.h"
#include "core/large_pages.h"
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
      records_.push_back({record});
      holders_.push_back(1);
      return RecordIndex{static_cast<std::uint32_t>(records_.size() - 1)};
    }
    const RecordIndex reused = free_.back();
    free_.pop_back();
    records_[reused.value].record = record;
    holders_[reused.value] = 1;
    return reused;
  }
  void hold(RecordIndex index) { ++holders_[index.value]; }
  void release(RecordIndex index) {
    if (--holders_[index.value] == 0) set_free(index);
  }
  // The same for a record with one holder, without reading the count.
  void release_sole(RecordIndex index) { set_free(index); }
  const AccessRecord& at(RecordIndex index) const { return records_[index.value].record; }
  std::size_t size() const { return records_.size() - free_.size() - loading_count_; }

 private:
  // Aligned so that no record lies in three cache lines.
  struct alignas(32) Slot {
    AccessRecord record;
  };
  static constexpr std::size_t kLoading = 8;

  // A freed record is reused only after some others, so that it is loaded by then.
  void set_free(RecordIndex index) {
    const char* bytes = reinterpret_cast<const char*>(&records_[index.value]);
    for (std::size_t at = 0; at < sizeof(Slot); at += 64) __builtin_prefetch(bytes + at, 1);
    __builtin_prefetch(&holders_[index.value], 1);
    if (loading_count_ < kLoading) {
      loading_[loading_count_++] = index;
      return;
    }
    RecordIndex& oldest = loading_[loading_at_];
    loading_at_ = (loading_at_ + 1) % kLoading;
    free_.push_back(oldest);
    oldest = index;
  }

  LargeVector<Slot> records_;
  // Apart from the records: letting go of one must not load it.
  LargeVector<std::uint32_t> holders_;
  std::vector<RecordIndex> free_;
  RecordIndex loading_[kLoading];  // free ones that are being loaded
  std::size_t loading_count_ = 0;
  std::size_t loading_at_ = 0;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RECORD_POOL_H_
