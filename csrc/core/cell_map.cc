#include "core/cell_map.h"

namespace streamguard::core {

CellIndex CellMap::first_ending_after(Address address) const {
  if (const CellIndex exact = beginning_at(address); exact != kNoCell) return exact;
  const auto after = order_.upper_bound(address);
  if (after != order_.begin()) {
    const CellIndex before = std::prev(after)->second;
    if (at(before).range.end > address) return before;
  }
  return after == order_.end() ? kNoCell : after->second;
}

CellIndex CellMap::straddling(Address address) const {
  if (beginning_at(address) != kNoCell) return kNoCell;
  const auto after = order_.upper_bound(address);
  if (after == order_.begin()) return kNoCell;
  const CellIndex before = std::prev(after)->second;
  return at(before).range.end > address ? before : kNoCell;
}

void CellMap::make_room() {
  if (order_.size() * 4 < std::size_t{home_count_} * 3) return;
  LargeVector<Cell> old;
  old.swap(cells_);
  home_count_ *= 2;
  // Of cells that fill three quarters of their homes about one in five is a stray.
  cells_.reserve(home_count_ + home_count_ / 4);
  cells_.resize(home_count_);
  strays_ = {};
  free_stray_slots_.clear();
  CellIndex previous = kNoCell;
  for (auto& [begin, index] : order_) {
    Cell& from = old[index.value];
    index = take_slot(begin);
    Cell& to = at(index);
    to = std::move(from);
    to.previous = previous;
    to.next = kNoCell;
    if (previous != kNoCell) at(previous).next = index;
    previous = index;
  }
}

CellIndex CellMap::take_slot(Address begin) {
  const CellIndex home = home_of(begin);
  for (const CellIndex near : {home, neighbour_of(home)}) {
    if (at(near).range.is_empty()) return near;
  }
  CellIndex stray{static_cast<std::uint32_t>(cells_.size())};
  if (free_stray_slots_.empty()) {
    cells_.emplace_back();
  } else {
    stray = free_stray_slots_.back();
    free_stray_slots_.pop_back();
  }
  strays_.insert(begin, stray.value);
  return stray;
}

void CellMap::release_slot(CellIndex cell) {
  ByteRange& range = at(cell).range;
  if (is_stray(cell)) {
    strays_.erase(range.begin);
    free_stray_slots_.push_back(cell);
  }
  range = {};
}

CellIndex CellMap::insert_before(CellIndex next, const ByteRange& range) {
  const CellIndex added = take_slot(range.begin);
  const auto hint = next == kNoCell ? order_.end() : order_.find(at(next).range.begin);
  const auto placed = order_.emplace_hint(hint, range.begin, added);
  Cell& cell = at(added);
  cell.range = range;
  cell.tenant = {};
  cell.entries.clear();
  cell.next = next;
  cell.previous = placed == order_.begin() ? kNoCell : std::prev(placed)->second;
  if (cell.previous != kNoCell) at(cell.previous).next = added;
  if (next != kNoCell) at(next).previous = added;
  return added;
}

CellIndex CellMap::split(CellIndex cell, Address address) {
  const ByteRange right{address, at(cell).range.end};
  at(cell).range.end = address;
  const CellIndex added = insert_before(at(cell).next, right);
  at(added).entries = at(cell).entries;
  return added;
}

void CellMap::absorb_next(CellIndex cell) {
  const CellIndex next = at(cell).next;
  at(cell).range.end = at(next).range.end;
  erase(next);
}

CellIndex CellMap::erase(CellIndex cell) {
  const CellIndex next = at(cell).next;
  order_.erase(at(cell).range.begin);
  unlink(cell);
  release_slot(cell);
  return next;
}

void CellMap::unlink(CellIndex cell) {
  const Cell& gone = at(cell);
  if (gone.previous != kNoCell) at(gone.previous).next = gone.next;
  if (gone.next != kNoCell) at(gone.next).previous = gone.previous;
}

}  // namespace streamguard::core
