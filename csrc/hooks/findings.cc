#include "hooks/findings.h"

namespace streamguard::hooks {

void FindingStore::add(const core::Race& race, int64_t step) {
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
