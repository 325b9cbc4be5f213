#include "core/own_writes.h"

#include <algorithm>

namespace streamguard::core {
namespace {

void add_range(Address begin, Address end, std::vector<Region>& pieces) {
  if (begin < end) pieces.push_back(Region::of_range({begin, end}));
}

// One op whose rows interleave in more runs than this keeps its reads whole: the bytes that it
// writes as well count as both then. That adds a pair to some races and never a race.
constexpr std::size_t kMostRuns = 1 << 14;

// Appends `from` without `taken`, run by run.
void subtract(const Region& from, const Region& taken, std::vector<Region>& pieces) {
  const ByteRange bounds = from.bounds();
  if (!first_overlap(from, taken)) {
    pieces.push_back(from);
    return;
  }
  if (covers(taken, from, bounds)) return;
  const std::size_t piece_count = pieces.size();
  std::size_t runs = 0;
  for (std::uint64_t row = 0; row < from.rows; ++row, ++runs) {
    const Address row_begin = from.begin + row * from.pitch;
    const Address row_end = row_begin + from.width;
    Address at = row_begin;
    while (const auto cut = first_overlap(taken, Region::of_range({at, row_end}))) {
      add_range(at, cut->begin, pieces);
      at = cut->end;
      if (at >= row_end || ++runs > kMostRuns) break;
    }
    if (runs > kMostRuns) {
      pieces.resize(piece_count);
      pieces.push_back(from);
      return;
    }
    add_range(at, row_end, pieces);
  }
}

}  // namespace

void OwnWrites::set(AccessSpan accesses) {
  writes_.clear();
  for (const Access& access : accesses) {
    if (access.kind != AccessKind::kWrite || access.region.is_empty()) continue;
    const Region region = access.region.normalized();
    writes_.push_back({region, region.bounds(), 0});
  }
  std::sort(writes_.begin(), writes_.end(),
            [](const Write& a, const Write& b) { return a.bounds.begin < b.bounds.begin; });
  Address furthest = 0;
  for (Write& write : writes_) {
    furthest = std::max(furthest, write.bounds.end);
    write.furthest_end = furthest;
  }
}

void OwnWrites::subtract_from(const Region& read, std::vector<Region>& pieces) {
  pieces.clear();
  if (read.is_empty()) return;
  pieces.push_back(read);
  const ByteRange bounds = read.bounds();
  auto write = std::lower_bound(
      writes_.begin(), writes_.end(), bounds.end,
      [](const Write& candidate, Address end) { return candidate.bounds.begin < end; });
  while (write != writes_.begin() && !pieces.empty()) {
    --write;
    if (write->furthest_end <= bounds.begin) return;
    if (!write->bounds.overlaps(bounds)) continue;
    rest_.clear();
    for (const Region& piece : pieces) subtract(piece, write->region, rest_);
    pieces.swap(rest_);
  }
}

}  // namespace streamguard::core
