#include "hooks/findings.h"

namespace streamguard::hooks {

bool FindingStore::is_known_reuse(const core::Race& race) {
  if (race.domain != core::Race::Domain::kReuse) return false;
  if (!reuses_.emplace(race.first.op, race.second.allocation).second) return true;
  if (reuses_.size() > kReusesKept) reuses_.erase(reuses_.begin());
  return false;
}

void FindingStore::add(const core::Race& race, int64_t step) {
  if (is_known_reuse(race)) return;
  const Key key{race.kind,       race.domain,      race.first.label,  race.second.label,
                race.first.site, race.second.site, race.first.stream, race.second.stream};
  const int next = static_cast<int>(findings_.size());
  const auto [position, is_new] = by_key_.emplace(key, next);
  if (is_new) findings_.push_back({next, race, step, 0});
  ++findings_[position->second].count;
}

std::vector<int> FindingStore::take_unannounced() {
  std::vector<int> ids;
  for (; announced_ < findings_.size(); ++announced_) ids.push_back(findings_[announced_].id);
  return ids;
}

}  // namespace streamguard::hooks
