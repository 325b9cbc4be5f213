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

CellIndex CellMap::new_cell() {
  if (free_cells_.empty()) {
    cells_.emplace_back();
    return CellIndex{static_cast<std::uint32_t>(cells_.size() - 1)};
  }
  const CellIndex reused = free_cells_.back();
  free_cells_.pop_back();
  return reused;
}

CellIndex CellMap::insert_before(CellIndex next, const ByteRange& range) {
  const CellIndex added = new_cell();
  const auto hint = next == kNoCell ? order_.end() : order_.find(at(next).range.begin);
  const auto placed = order_.emplace_hint(hint, range.begin, added);
  by_begin_.insert(range.begin, added.value);
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
  by_begin_.erase(at(cell).range.begin);
  unlink(cell);
  free_cells_.push_back(cell);
  return next;
}

void CellMap::unlink(CellIndex cell) {
  const Cell& gone = at(cell);
  if (gone.previous != kNoCell) at(gone.previous).next = gone.next;
  if (gone.next != kNoCell) at(gone.next).previous = gone.previous;
}

}  // namespace streamguard::core
