// Who touched which bytes last.
#ifndef STREAMGUARD_CORE_SHADOW_MEMORY_H_
#define STREAMGUARD_CORE_SHADOW_MEMORY_H_

#include <cstddef>
#include <vector>

#include "core/cell_map.h"
#include "core/engine.h"
#include "core/happens_before.h"
#include "core/race.h"
#include "core/record_pool.h"
#include "core/vector_clock.h"

namespace streamguard::core {

// History of accesses per byte, kept per cell.
//
// With History::kBounded a cell keeps for each lane the newest read and the newest write of each of
// its bytes. That loses no racy op: when an older access of a lane is unordered with a new one, so
// is the lane's newest. Accesses that every host thread knows are dropped when met.
//
// Thread safety: none.
// Invariants:
//   1. An access is in every cell that holds one of its bytes, until dropped.
//   2. An entry that is not partial touches every byte of its cell.
// Cost: enter O(1) for a region that begins where a cell begins, else O(log cells); plus the cells
//   and entries touched. Rows cost nothing: pitched regions are kept whole and compared exactly.
class ShadowMemory {
 public:
  // `pruned_by` may be null: then nothing is dropped because the host knows it.
  ShadowMemory(History history, const HappensBefore* pruned_by)
      : history_(history), pruned_by_(pruned_by) {}

  // Finds the earlier accesses that conflict with `access` and that `clock` does not know (a null
  // clock: all that conflict), then keeps the access. `found` may name one record twice; indexes
  // are valid until the next call.
  void enter(const AccessRecord& access, const VectorClock* clock, std::vector<RecordIndex>& found);
  // The same without keeping the access, for one that can never race with a later one.
  void check(const AccessRecord& access, const VectorClock* clock, std::vector<RecordIndex>& found);

  // Starts to load what `enter` will need, so that the accesses of one op miss the cache together
  // and not one after the other: first the home of each cell, then the cells that are not there.
  void prefetch_home(Address begin) const { cells_.prefetch(begin); }
  void prefetch_stray(Address begin) const;

  const AccessRecord& record(RecordIndex index) const { return records_.at(index); }

  // Block at an address where a cell begins, if it was remembered.
  Tenant tenant_at(Address address) const;
  void remember_tenant(Address address, Tenant tenant);
  // The blocks in this range changed.
  void forget_tenants(const ByteRange& range);

  // Drops what the hosts know, and cells that are left without history. Returns whether the range
  // has no history any more.
  bool prune(const ByteRange& range);
  // Drops everything about these bytes.
  void forget(const ByteRange& range);

  std::size_t cell_count() const { return cells_.size(); }
  std::size_t entry_count() const { return entry_count_; }

 private:
  struct Visit {
    const AccessRecord& access;
    const VectorClock* clock;
    std::vector<RecordIndex>& found;
  };

  CellIndex split(CellIndex cell, Address at);
  void release(const Entry& entry);
  void drop_entry(Cell& cell, std::uint32_t index);
  void drop_entries(Cell& cell);
  bool is_dead(const Entry& entry) const {
    return pruned_by_ != nullptr && pruned_by_->is_known_to_hosts(entry.lane, entry.epoch);
  }
  bool conflicts(const Visit& visit, const Entry& entry, const ByteRange& window) const;
  void keep_in_cell(const Visit& visit, CellIndex cell, RecordIndex record);
  void merge_equal_cells(CellIndex first, Address end);

  History history_;
  const HappensBefore* pruned_by_;
  CellMap cells_;
  RecordPool records_;
  std::size_t entry_count_ = 0;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_SHADOW_MEMORY_H_
