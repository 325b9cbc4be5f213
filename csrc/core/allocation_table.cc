#include "core/allocation_table.h"

namespace streamguard::core {

AllocationTable::Slot AllocationTable::new_slot() {
  if (free_slots_.empty()) {
    slots_.emplace_back();
    return static_cast<Slot>(slots_.size() - 1);
  }
  const Slot reused = free_slots_.back();
  free_slots_.pop_back();
  return reused;
}

AllocationId AllocationTable::add(const ByteRange& range, MemoryKind kind, StreamId owner) {
  auto same = pieces_.find(range.begin);
  if (same != pieces_.end() && same->second.end == range.end) {
    drop_piece(same->second.slot);
  } else {
    forget(range);
    same = pieces_.end();
  }
  const Slot slot = new_slot();
  Allocation& added = slots_[slot];
  added.id = AllocationId{++newest_id_};
  added.range = range;
  added.kind = kind;
  added.owner = owner;
  added.is_live = true;
  added.recorded_streams.clear();
  added.pieces = 0;
  added.graph_uses = 0;
  by_id_.insert(added.id.value, slot);
  if (range.is_empty()) return added.id;
  if (same != pieces_.end()) {
    same->second.slot = slot;
  } else {
    pieces_.emplace(range.begin, Piece{range.end, slot});
  }
  added.pieces = 1;
  return added.id;
}

Allocation* AllocationTable::find(AllocationId id) {
  const Slot slot = by_id_.find(id.value);
  return slot == AddressHash::kNotFound ? nullptr : &slots_[slot];
}

const Allocation* AllocationTable::find(AllocationId id) const {
  const Slot slot = by_id_.find(id.value);
  return slot == AddressHash::kNotFound ? nullptr : &slots_[slot];
}

AllocationId AllocationTable::at(Address address) const {
  const auto after = pieces_.upper_bound(address);
  if (after == pieces_.begin()) return kNoAllocation;
  const Piece& piece = std::prev(after)->second;
  return piece.end > address ? slots_[piece.slot].id : kNoAllocation;
}

void AllocationTable::mark_freed(Allocation& allocation, const AccessRecord& freed_by) {
  allocation.is_live = false;
  allocation.freed_by = freed_by;
  allocation.recorded_streams.clear();
  if (allocation.pieces == 0) remember_or_drop(by_id_.find(allocation.id.value));
}

void AllocationTable::forget(const ByteRange& range) {
  if (range.is_empty()) return;
  auto at = pieces_.upper_bound(range.begin);
  if (at != pieces_.begin() && std::prev(at)->second.end > range.begin) --at;
  while (at != pieces_.end() && at->first < range.end) {
    const Address begin = at->first;
    const Piece piece = at->second;
    at = pieces_.erase(at);
    if (begin < range.begin) {
      pieces_.emplace_hint(at, begin, Piece{range.begin, piece.slot});
      ++slots_[piece.slot].pieces;
    }
    if (piece.end > range.end) {
      pieces_.emplace_hint(at, range.end, Piece{piece.end, piece.slot});
      ++slots_[piece.slot].pieces;
    }
    drop_piece(piece.slot);
  }
}

void AllocationTable::hold_for_graph(AllocationId id) {
  if (Allocation* allocation = find(id)) ++allocation->graph_uses;
}

void AllocationTable::release_from_graph(AllocationId id) {
  Allocation* allocation = find(id);
  if (allocation == nullptr) return;
  --allocation->graph_uses;
  if (allocation->pieces == 0 && !allocation->is_live) remember_or_drop(by_id_.find(id.value));
}

void AllocationTable::drop_piece(Slot slot) {
  Allocation& allocation = slots_[slot];
  // A live block without bytes is one whose free the caller did not see.
  if (--allocation.pieces == 0) remember_or_drop(slot);
}

void AllocationTable::remember_or_drop(Slot slot) {
  if (history_ == History::kFull || slots_[slot].graph_uses > 0) return;
  remembered_.push_back(slots_[slot].id);
  if (remembered_.size() <= kRemembered) return;
  const AllocationId oldest = remembered_.front();
  remembered_.pop_front();
  const Slot oldest_slot = by_id_.find(oldest.value);
  if (oldest_slot == AddressHash::kNotFound || slots_[oldest_slot].graph_uses > 0) return;
  drop(oldest_slot);
}

void AllocationTable::drop(Slot slot) {
  by_id_.erase(slots_[slot].id.value);
  free_slots_.push_back(slot);
}

}  // namespace streamguard::core
