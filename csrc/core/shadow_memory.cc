#include "core/shadow_memory.h"

#include <algorithm>

namespace streamguard::core {
namespace {

bool have_same_entries(const EntryList& a, const EntryList& b) {
  return a.size() == b.size() && std::all_of(a.begin(), a.end(), [&](const Entry& entry) {
           return std::find(b.begin(), b.end(), entry) != b.end();
         });
}

}  // namespace

CellIndex ShadowMemory::split(CellIndex cell, Address at) {
  const CellIndex right = cells_.split(cell, at);
  for (const CellIndex part : {cell, right}) {
    for (Entry& entry : cells_.at(part).entries) entry.is_sole = false;
  }
  for (const Entry& entry : cells_.at(right).entries) records_.hold(entry.record);
  entry_count_ += cells_.at(right).entries.size();
  return right;
}

void ShadowMemory::release(const Entry& entry) {
  if (entry.is_sole) {
    records_.release_sole(entry.record);
  } else {
    records_.release(entry.record);
  }
}

void ShadowMemory::drop_entry(Cell& cell, std::uint32_t index) {
  release(cell.entries[index]);
  cell.entries.remove_at(index);
  --entry_count_;
}

void ShadowMemory::drop_entries(Cell& cell) {
  for (const Entry& entry : cell.entries) release(entry);
  entry_count_ -= cell.entries.size();
  cell.entries.clear();
}

bool ShadowMemory::conflicts(const Visit& visit, const Entry& entry,
                             const ByteRange& window) const {
  if (!entry.is_write && visit.access.kind == AccessKind::kRead) return false;
  if (visit.clock != nullptr && visit.clock->knows(entry.lane, entry.epoch)) return false;
  if (!entry.is_partial) return true;
  return first_overlap(records_.at(entry.record).region, visit.access.region, window).has_value();
}

void ShadowMemory::prefetch_stray(Address begin) const {
  const CellIndex cell = cells_.beginning_at(begin);
  if (cell != kNoCell && cells_.is_stray(cell)) cells_.prefetch_cell(cell);
}

void ShadowMemory::enter(const AccessRecord& access, const VectorClock* clock,
                         std::vector<RecordIndex>& found) {
  const ByteRange range = access.region.bounds();
  if (range.is_empty()) return;
  const Visit visit{access, clock, found};
  cells_.make_room();
  CellIndex cell = cells_.first_ending_after(range.begin);
  if (cell != kNoCell && cells_.at(cell).range.begin < range.begin) {
    cell = split(cell, range.begin);
  }

  const RecordIndex record = records_.add(access);
  CellIndex first = kNoCell;
  std::size_t touched = 0;
  for (Address at = range.begin; at < range.end;) {
    if (cell == kNoCell || cells_.at(cell).range.begin > at) {
      const Address gap_end =
          cell == kNoCell ? range.end : std::min(range.end, cells_.at(cell).range.begin);
      cell = cells_.insert_before(cell, {at, gap_end});
    } else if (cells_.at(cell).range.end > range.end) {
      split(cell, range.end);
    }
    keep_in_cell(visit, cell, record);
    if (first == kNoCell) first = cell;
    ++touched;
    at = cells_.at(cell).range.end;
    cell = cells_.at(cell).next;
  }
  records_.release(record);
  if (touched > 1) merge_equal_cells(first, range.end);
}

void ShadowMemory::keep_in_cell(const Visit& visit, CellIndex index, RecordIndex record) {
  Cell& cell = cells_.at(index);
  const AccessRecord& access = visit.access;
  bool is_partial = false;
  if (!access.region.is_contiguous()) {
    if (!first_overlap(access.region, Region::of_range(cell.range))) return;
    is_partial = !covers(access.region, Region::of_range(cell.range), cell.range);
  }
  const bool is_write = access.kind == AccessKind::kWrite;
  for (std::uint32_t at = 0; at < cell.entries.size();) {
    const Entry& entry = cell.entries[at];
    if (is_dead(entry)) {
      drop_entry(cell, at);
      continue;
    }
    if (conflicts(visit, entry, cell.range)) visit.found.push_back(entry.record);
    const bool is_superseded =
        history_ == History::kBounded && entry.lane == access.lane && entry.is_write == is_write &&
        (!is_partial ||
         (entry.is_partial && covers(access.region, records_.at(entry.record).region, cell.range)));
    if (is_superseded) {
      drop_entry(cell, at);
      continue;
    }
    ++at;
  }
  records_.hold(record);
  const bool is_sole = cell.range == access.region.bounds();
  cell.entries.push_back({access.epoch, access.lane, record, is_write, is_partial, is_sole});
  ++entry_count_;
}

void ShadowMemory::check(const AccessRecord& access, const VectorClock* clock,
                         std::vector<RecordIndex>& found) {
  const ByteRange range = access.region.bounds();
  if (range.is_empty()) return;
  const Visit visit{access, clock, found};
  for (CellIndex index = cells_.first_ending_after(range.begin); index != kNoCell;
       index = cells_.at(index).next) {
    const Cell& cell = cells_.at(index);
    if (cell.range.begin >= range.end) return;
    if (!first_overlap(access.region, Region::of_range(cell.range))) continue;
    for (const Entry& entry : cell.entries) {
      if (conflicts(visit, entry, cell.range)) found.push_back(entry.record);
    }
  }
}

Tenant ShadowMemory::tenant_at(Address address) const {
  const CellIndex cell = cells_.beginning_at(address);
  return cell == kNoCell ? Tenant{} : cells_.at(cell).tenant;
}

void ShadowMemory::remember_tenant(Address address, Tenant tenant) {
  const CellIndex cell = cells_.beginning_at(address);
  if (cell != kNoCell) cells_.at(cell).tenant = tenant;
}

void ShadowMemory::forget_tenants(const ByteRange& range) {
  for (CellIndex cell = cells_.first_ending_after(range.begin);
       cell != kNoCell && cells_.at(cell).range.begin < range.end; cell = cells_.at(cell).next) {
    cells_.at(cell).tenant = {};
  }
}

bool ShadowMemory::prune(const ByteRange& range) {
  bool is_clean = true;
  for (CellIndex index = cells_.first_ending_after(range.begin);
       index != kNoCell && cells_.at(index).range.begin < range.end;) {
    Cell& cell = cells_.at(index);
    for (std::uint32_t at = 0; at < cell.entries.size();) {
      if (is_dead(cell.entries[at])) {
        drop_entry(cell, at);
      } else {
        ++at;
      }
    }
    if (cell.entries.is_empty()) {
      index = cells_.erase(index);
    } else {
      is_clean = false;
      index = cell.next;
    }
  }
  return is_clean;
}

void ShadowMemory::forget(const ByteRange& range) {
  if (range.is_empty()) return;
  for (const Address edge : {range.begin, range.end}) {
    if (const CellIndex cell = cells_.straddling(edge); cell != kNoCell) split(cell, edge);
  }
  for (CellIndex cell = cells_.first_ending_after(range.begin);
       cell != kNoCell && cells_.at(cell).range.begin < range.end;) {
    drop_entries(cells_.at(cell));
    cell = cells_.erase(cell);
  }
}

// A loop that touches a buffer in varying slices would otherwise cut it ever finer.
void ShadowMemory::merge_equal_cells(CellIndex first, Address end) {
  for (CellIndex index = first; index != kNoCell;) {
    Cell& cell = cells_.at(index);
    if (cell.next == kNoCell || cell.range.end >= end) return;
    Cell& next = cells_.at(cell.next);
    const bool is_same =
        cell.range.end == next.range.begin && have_same_entries(cell.entries, next.entries);
    if (!is_same) {
      index = cell.next;
      continue;
    }
    // An entry that left bytes out of one part leaves them out of the whole.
    for (Entry& entry : cell.entries) {
      const Entry* other = std::find(next.entries.begin(), next.entries.end(), entry);
      entry.is_partial = entry.is_partial || other->is_partial;
    }
    drop_entries(next);
    cells_.absorb_next(index);
  }
}

}  // namespace streamguard::core
