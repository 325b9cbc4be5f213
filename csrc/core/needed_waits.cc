#include "core/needed_waits.h"

#include <algorithm>
#include <map>
#include <utility>

namespace streamguard::core {

// A race is ordered by a wait between its two accesses, in issue order. So the fewest waits are the
// fewest points that hit all those intervals: as late as the interval that ends first allows.
std::vector<NeededWait> needed_waits(const std::vector<Race>& races) {
  std::vector<std::size_t> by_end;
  for (std::size_t index = 0; index < races.size(); ++index) {
    if (races[index].kind != Race::Kind::kUaf) by_end.push_back(index);
  }
  std::stable_sort(by_end.begin(), by_end.end(), [&](std::size_t a, std::size_t b) {
    return races[a].second.op < races[b].second.op;
  });

  std::vector<NeededWait> waits;
  std::map<std::pair<LaneId, LaneId>, std::size_t> newest;  // wait of a pair of lanes
  for (const std::size_t index : by_end) {
    const AccessRecord& first = races[index].first;
    const AccessRecord& second = races[index].second;
    const auto [at, is_new] = newest.try_emplace({first.lane, second.lane}, waits.size());
    if (!is_new && first.op < waits[at->second].before_op) {
      NeededWait& covering = waits[at->second];
      covering.after_op = std::max(covering.after_op, first.op);
      covering.races.push_back(index);
      continue;
    }
    at->second = waits.size();
    waits.push_back({first.stream, second.stream, second.thread, first.op, second.op, {index}});
  }
  return waits;
}

}  // namespace streamguard::core
