// Which block holds which bytes, and which blocks are gone.
#ifndef STREAMGUARD_CORE_ALLOCATION_TABLE_H_
#define STREAMGUARD_CORE_ALLOCATION_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory_resource>
#include <vector>

#include "core/address_hash.h"
#include "core/engine.h"
#include "core/ids.h"
#include "core/race.h"
#include "core/region.h"

namespace streamguard::core {

struct Allocation {
  AllocationId id;
  ByteRange range;
  MemoryKind kind = MemoryKind::kDevice;
  StreamId owner = kNoStream;
  bool is_live = true;
  std::vector<StreamId> recorded_streams;  // without the owner, each once
  AccessRecord freed_by;                   // valid when not live
  std::uint32_t pieces = 0;                // runs of bytes no newer block has taken
  std::uint32_t graph_uses = 0;            // graphs that have an address in it baked in
};

// Blocks by id and by address, live and freed.
//
// A freed block is remembered while it is the newest at one of its bytes or while a graph uses it;
// after that only the newest kRemembered of them (all, with History::kFull), so that memory follows
// the address space and not the length of the run.
//
// Thread safety: none.
// Invariants:
//   1. Every byte belongs to the newest block that was placed on it.
//   2. Ids grow by one and are never reused.
// Cost: find O(1), at O(log blocks), add O(log blocks + blocks
// replaced); a block at the place and of the size of an earlier one moves no piece.
class AllocationTable {
 public:
  static constexpr std::size_t kRemembered = 512;

  explicit AllocationTable(History history) : history_(history), pieces_(&pool_) {}

  AllocationId add(const ByteRange& range, MemoryKind kind, StreamId owner);
  // Null when the id is unknown or no longer remembered. Valid until the next add.
  Allocation* find(AllocationId id);
  const Allocation* find(AllocationId id) const;
  // Newest block at the byte, live or freed.
  AllocationId at(Address address) const;
  void mark_freed(Allocation& allocation, const AccessRecord& freed_by);
  // Blocks lose these bytes.
  void forget(const ByteRange& range);
  void hold_for_graph(AllocationId id);
  void release_from_graph(AllocationId id);
  std::size_t size() const { return by_id_.size(); }

 private:
  using Slot = std::uint32_t;
  struct Piece {
    Address end;
    Slot slot;
  };

  using Pieces = std::pmr::map<Address, Piece>;

  Slot new_slot();
  void drop_piece(Slot slot);
  void remember_or_drop(Slot slot);
  void drop(Slot slot);

  History history_;
  std::uint64_t newest_id_ = 0;
  std::pmr::unsynchronized_pool_resource pool_;
  AddressHash by_id_;
  Pieces pieces_;  // key: begin
  std::deque<Allocation> slots_;
  std::vector<Slot> free_slots_;
  std::deque<AllocationId> remembered_;  // without a byte of their own, oldest first
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ALLOCATION_TABLE_H_
