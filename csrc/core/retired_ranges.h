// Freed bytes whose history may still be needed.
#ifndef STREAMGUARD_CORE_RETIRED_RANGES_H_
#define STREAMGUARD_CORE_RETIRED_RANGES_H_

#include <cstddef>
#include <map>
#include <memory_resource>

#include "core/region.h"

namespace streamguard::core {

// Ranges that were freed and not taken again. Once every stream that used one is known complete,
// its history is dropped, so that a block that never comes back costs nothing.
//
// Thread safety: none.
// Invariants:
//   1. Ranges are disjoint and not empty.
// Cost: add and remove O(log ranges), sweep O(budget).
class RetiredRanges {
 public:
  RetiredRanges() : ranges_(&pool_) {}

  void add(const ByteRange& range);
  void remove(const ByteRange& range);
  // Offers up to `budget` ranges, round robin, to prune(range) -> "has no history left".
  template <typename Prune>
  void sweep(std::size_t budget, Prune prune) {
    for (std::size_t count = ranges_.size() < budget ? ranges_.size() : budget; count > 0;
         --count) {
      auto at = ranges_.lower_bound(cursor_);
      if (at == ranges_.end()) at = ranges_.begin();
      cursor_ = at->second;
      if (prune(ByteRange{at->first, at->second})) ranges_.erase(at);
    }
  }
  std::size_t size() const { return ranges_.size(); }

 private:
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::map<Address, Address> ranges_;  // begin to end
  Address cursor_ = 0;                      // where the next sweep goes on
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RETIRED_RANGES_H_
