#include "core/retired_ranges.h"

namespace streamguard::core {

void RetiredRanges::add(const ByteRange& range) {
  if (range.is_empty()) return;
  remove(range);
  ranges_.emplace(range.begin, range.end);
}

void RetiredRanges::remove(const ByteRange& range) {
  if (range.is_empty()) return;
  auto at = ranges_.upper_bound(range.begin);
  if (at != ranges_.begin() && std::prev(at)->second > range.begin) --at;
  while (at != ranges_.end() && at->first < range.end) {
    const ByteRange old{at->first, at->second};
    at = ranges_.erase(at);
    if (old.begin < range.begin) ranges_.emplace_hint(at, old.begin, range.begin);
    if (old.end > range.end) at = ranges_.emplace_hint(at, range.end, old.end);
  }
}

}  // namespace streamguard::core
