#include "detection/findings.h"

#include <algorithm>

namespace streamguard::detection {
namespace {

constexpr uint64_t kRest = UINT64_MAX;

}  // namespace

bool FindingStore::is_known_reuse(const core::Race& race) {
  if (race.domain != core::Race::Domain::kReuse) return false;
  if (!reuses_.emplace(race.first.op, race.second.allocation).second) return true;
  if (reuses_.size() > kReusesKept) reuses_.erase(reuses_.begin());
  return false;
}

FindingStore::Finding* FindingStore::find_or_add(const core::Race& race, int64_t step,
                                                 bool is_inserted, uint64_t place) {
  const Key key{race.kind,         race.domain,        race.first.label,
                race.second.label, race.first.site,    race.second.site,
                race.first.stream, race.second.stream, is_inserted};
  Places& places = by_key_[key];
  const bool is_rest = places.size() >= kMostPlaces && places.count(place) == 0;
  const auto known = places.find(is_rest ? kRest : place);
  if (known != places.end()) return &findings_[static_cast<size_t>(known->second)];
  if (findings_.size() == kMostFindings) {
    if (places.empty()) by_key_.erase(key);
    ++left_out_;
    return nullptr;
  }
  const int next = static_cast<int>(findings_.size());
  const int pair =
      places.empty() ? next : findings_[static_cast<size_t>(places.begin()->second)].pair;
  places.emplace(is_rest ? kRest : place, next);
  findings_.push_back({next, race, step, 0, {}, {}, pair, is_rest});
  return &findings_.back();
}

void FindingStore::add(const core::Race& race, int64_t step, uint64_t place) {
  if (is_known_reuse(race)) return;
  Finding* const finding = find_or_add(race, step, false, place);
  if (finding != nullptr) ++finding->count;
}

std::vector<int> FindingStore::add_inserted_wait(const std::vector<core::Race>& races, int64_t step,
                                                 bool is_awaited_running) {
  std::vector<int> ids;
  for (const core::Race& race : races) {
    Finding* const finding = find_or_add(race, step, true, kAnyPlace);
    // One op that races by several of its accesses waits once.
    if (finding == nullptr || std::find(ids.begin(), ids.end(), finding->id) != ids.end()) continue;
    ids.push_back(finding->id);
    ++finding->count;
    if (!finding->inserted) finding->inserted.emplace();
    if (is_awaited_running) ++finding->inserted->running;
  }
  return ids;
}

void FindingStore::add_waiting_time(int finding, double waited_ms) {
  auto& inserted = findings_[static_cast<size_t>(finding)].inserted;
  if (!inserted) return;
  ++inserted->timed;
  inserted->waited_ms += waited_ms;
}

void FindingStore::begin_tries(int finding) {
  auto& tries = findings_[static_cast<size_t>(finding)].tries;
  if (!tries) tries.emplace();
}

void FindingStore::add_try(int finding, uint64_t compared_bytes, uint64_t changed_bytes) {
  begin_tries(finding);
  Tries& tries = *findings_[static_cast<size_t>(finding)].tries;
  ++tries.count;
  if (tries.showing == 0) {
    tries.compared_bytes = compared_bytes;
    tries.changed_bytes = changed_bytes;
  }
  if (changed_bytes > 0) ++tries.showing;
}

std::vector<int> FindingStore::take_unannounced() {
  std::vector<int> ids;
  for (; announced_ < findings_.size(); ++announced_) ids.push_back(findings_[announced_].id);
  return ids;
}

}  // namespace streamguard::detection
