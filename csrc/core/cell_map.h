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
// Thread safety: none.
// Invariants:
//   1. Cells are not empty, do not overlap, and are linked in address order.
//   2. Every cell is in both indexes under its begin.
// Cost: O(1) for a range that begins where a cell begins, else O(log cells); plus cells touched.
//   No heap allocation once the high-water mark is reached.
class CellMap {
 public:
  CellMap() : order_(&pool_) {}
  CellMap(const CellMap&) = delete;
  CellMap& operator=(const CellMap&) = delete;

  Cell& at(CellIndex index) { return cells_[index.value]; }
  const Cell& at(CellIndex index) const { return cells_[index.value]; }
  std::size_t size() const { return order_.size(); }

  // Cell that begins exactly there, or kNoCell.
  CellIndex beginning_at(Address address) const {
    const std::uint32_t found = by_begin_.find(address);
    return found == AddressHash::kNotFound ? kNoCell : CellIndex{found};
  }
  void prefetch_index(Address address) const { by_begin_.prefetch(address); }
  void prefetch_cell(Address address) const {
    const CellIndex cell = beginning_at(address);
    if (cell == kNoCell) return;
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
  CellIndex new_cell();
  void unlink(CellIndex cell);

  std::pmr::unsynchronized_pool_resource pool_;
  std::pmr::map<Address, CellIndex> order_;
  AddressHash by_begin_;
  std::vector<Cell> cells_;
  std::vector<CellIndex> free_cells_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_CELL_MAP_H_
