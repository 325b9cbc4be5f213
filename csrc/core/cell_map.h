// The bytes of shadow memory, cut into cells.
#ifndef STREAMGUARD_CORE_CELL_MAP_H_
#define STREAMGUARD_CORE_CELL_MAP_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory_resource>
#include <vector>

#include "core/address_hash.h"
#include "core/entry_list.h"
#include "core/ids.h"
#include "core/large_pages.h"
#include "core/region.h"

namespace streamguard::core {

using CellIndex = StrongId<struct CellTag, std::uint32_t>;
inline constexpr CellIndex kNoCell{0xffffffffu};

// Block at a cell's first byte, remembered so that an access need not look it up again.
struct Tenant {
  AllocationId allocation = kNoAllocation;
  bool is_freed = false;
  bool is_known = false;
};

// A run of bytes with one history.
struct alignas(64) Cell {
  ByteRange range;
  CellIndex previous = kNoCell;  // in address order
  CellIndex next = kNoCell;
  Tenant tenant;
  EntryList entries;
};
static_assert(sizeof(Cell) == 128, "a cell is two cache lines");

// Disjoint cells in address order. Ranges that nobody touched have no cell.
//
// Tensors are accessed again and again by the same begin, and with a million cells each step to the
// next piece of memory misses the cache. So a cell lies, where it can, at one of two slots
// that its begin hashes to, and is found without reading any index.
//
// Thread safety: none.
// Invariants:
//   1. Cells are not empty, do not overlap, and are linked in address order.
//   2. A cell is at the home slot of its begin, at its neighbour or, when both were taken, after
//      all home slots and in `strays_`.
//   3. Unused slots have an empty range.
// Cost: O(1) for a range that begins where a cell begins, else O(log cells); plus cells touched.
//   No heap allocation once the high-water mark is reached.
class CellMap {
 public:
  CellMap() : order_(&pool_), cells_(home_count_) {}
  CellMap(const CellMap&) = delete;
  CellMap& operator=(const CellMap&) = delete;

  Cell& at(CellIndex index) { return cells_[index.value]; }
  const Cell& at(CellIndex index) const { return cells_[index.value]; }
  std::size_t size() const { return order_.size(); }

  // Makes more home slots when most are taken. Cells move: an index from before is void.
  void make_room();

  // Cell that begins exactly there, or kNoCell.
  CellIndex beginning_at(Address address) const {
    const CellIndex home = home_of(address);
    for (const CellIndex near : {home, neighbour_of(home)}) {
      const ByteRange& range = at(near).range;
      if (range.begin == address && !range.is_empty()) return near;
    }
    const std::uint32_t found = strays_.find(address);
    return found == AddressHash::kNotFound ? kNoCell : CellIndex{found};
  }
  // Starts to load what finding a cell reads, and the cell itself where it is at home.
  void prefetch(Address address) const {
    const CellIndex home = home_of(address);
    prefetch_cell(home);
    prefetch_cell(neighbour_of(home));
    strays_.prefetch(address);
  }
  bool is_stray(CellIndex cell) const { return cell.value >= home_count_; }
  void prefetch_cell(CellIndex cell) const {
    const char* bytes = reinterpret_cast<const char*>(&cells_[cell.value]);
    for (std::size_t line = 0; line < sizeof(Cell); line += 64) __builtin_prefetch(bytes + line);
  }

  // First cell that ends after `address`, or kNoCell.
  CellIndex first_ending_after(Address address) const;
  // Cell that holds both the byte before `address` and the byte at it, or kNoCell.
  CellIndex straddling(Address address) const;

  // New cell without entries right before `next` (kNoCell: last). REQUIRES: range is free.
  CellIndex insert_before(CellIndex next, const ByteRange& range);
  // Cuts a cell in two; both keep the entries. Returns the right part.
  CellIndex split(CellIndex cell, Address at);
  // Gives the bytes of `cell`'s right neighbour to `cell`. REQUIRES: they touch.
  void absorb_next(CellIndex cell);
  // Returns the cell that followed.
  CellIndex erase(CellIndex cell);

 private:
  CellIndex home_of(Address address) const {
    return CellIndex{static_cast<std::uint32_t>(spread(address) & (home_count_ - 1))};
  }
  static CellIndex neighbour_of(CellIndex home) { return CellIndex{home.value ^ 1}; }
  CellIndex take_slot(Address begin);
  void release_slot(CellIndex cell);
  void unlink(CellIndex cell);

  std::uint32_t home_count_ = 64;  // a power of two
  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::map<Address, CellIndex> order_;
  LargeVector<Cell> cells_;  // home slots, then strays
  AddressHash strays_;       // begin to index
  std::vector<CellIndex> free_stray_slots_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_CELL_MAP_H_
