#include "core/watch_log.h"

#include <algorithm>
#include <utility>

namespace streamguard::core {
namespace {

OrderEdge edge_between(const AccessRecord& earlier, const AccessRecord& later,
                       const HappensBefore& order, const HappensBefore* with_communicators) {
  if (earlier.lane == later.lane) {
    const auto kind = earlier.on_host ? OrderEdge::Kind::kHostIssue : OrderEdge::Kind::kStreamOrder;
    return {kind, EventId{}, earlier.stream, earlier.op, later.op};
  }
  if (order.knows(later.lane, earlier.lane, earlier.epoch)) {
    return order.last_edge(later.lane, earlier.lane);
  }
  if (with_communicators != nullptr &&
      with_communicators->knows(later.lane, earlier.lane, earlier.epoch)) {
    return with_communicators->last_edge(later.lane, earlier.lane);
  }
  return {};
}

}  // namespace

void WatchLog::watch(const ByteRange& range) {
  if (!range.is_empty()) ranges_.push_back(range);
}

void WatchLog::unwatch(const ByteRange& range) {
  ranges_.erase(std::remove(ranges_.begin(), ranges_.end(), range), ranges_.end());
  if (ranges_.empty()) shadow_.forget({0, ~Address{0}});
}

void WatchLog::enter(const AccessRecord& access, const HappensBefore& order,
                     const HappensBefore* with_communicators) {
  const bool is_watched = std::any_of(ranges_.begin(), ranges_.end(), [&](const ByteRange& range) {
    return first_overlap(access.region, Region::of_range(range)).has_value();
  });
  if (!is_watched) return;
  found_.clear();
  shadow_.enter(access, nullptr, found_);

  WatchedAccess entry{access, {}};
  for (RecordIndex index : found_) {
    const AccessRecord& earlier = shadow_.record(index);
    if (earlier.op == access.op) continue;
    entry.after.push_back({earlier, edge_between(earlier, access, order, with_communicators)});
  }
  std::sort(entry.after.begin(), entry.after.end(), [](const auto& a, const auto& b) {
    return std::pair(a.earlier.op, a.earlier.region.begin) <
           std::pair(b.earlier.op, b.earlier.region.begin);
  });
  entry.after.erase(std::unique(entry.after.begin(), entry.after.end(),
                                [](const auto& a, const auto& b) {
                                  return a.earlier.op == b.earlier.op &&
                                         a.earlier.region == b.earlier.region &&
                                         a.earlier.kind == b.earlier.kind;
                                }),
                    entry.after.end());
  log_.push_back(std::move(entry));
}

std::vector<WatchedAccess> WatchLog::take() { return std::exchange(log_, {}); }

}  // namespace streamguard::core
