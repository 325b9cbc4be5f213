#include "detection/watch_log.h"

#include <algorithm>

namespace streamguard::detection {

void WatchLog::watch(core::ByteRange range, const std::string& name) {
  for (const Watched& known : ranges_) {
    if (known.range == range && known.name == name) return;
  }
  ranges_.push_back({range, name});
}

std::vector<core::ByteRange> WatchLog::end_within(core::ByteRange bytes) {
  std::vector<core::ByteRange> ended;
  const auto first_ended =
      std::stable_partition(ranges_.begin(), ranges_.end(),
                            [&](const Watched& watched) { return !watched.range.overlaps(bytes); });
  for (auto it = first_ended; it != ranges_.end(); ++it) ended.push_back(it->range);
  ranges_.erase(first_ended, ranges_.end());
  return ended;
}

void WatchLog::add(core::WatchedAccess watched, int64_t step) {
  const core::AccessRecord& access = watched.access;
  const auto is_foreign = [&](const core::WatchedAccess::After& after) {
    return after.earlier.allocation != access.allocation;
  };
  watched.after.erase(std::remove_if(watched.after.begin(), watched.after.end(), is_foreign),
                      watched.after.end());
  std::vector<Order> orders;
  for (const core::WatchedAccess::After& after : watched.after) {
    orders.push_back({after.earlier.label, after.earlier.kind, after.earlier.stream,
                      after.edge.kind, after.edge.from});
  }
  for (const Watched& target : ranges_) {
    const auto touched =
        core::first_overlap(access.region, core::Region::of_range(target.range), target.range);
    if (!touched) continue;
    const core::ByteRange bounds = access.region.bounds();
    const uint64_t begin = touched->begin - target.range.begin;
    const uint64_t end = std::min(bounds.end, target.range.end) - target.range.begin;
    const Key key{target.name, access.label, access.site, access.stream,
                  access.kind, begin,        end,         orders};
    const auto [position, is_new] = by_key_.emplace(key, entries_.size());
    if (is_new) entries_.push_back({target.name, begin, end, watched, step, 0});
    ++entries_[position->second].count;
  }
}

}  // namespace streamguard::detection
