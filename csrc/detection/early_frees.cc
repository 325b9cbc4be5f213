#include "detection/early_frees.h"

namespace streamguard::detection {

void EarlyFrees::add(const core::AccessRecord& access, core::StreamId owner, int64_t step) {
  const auto [position, is_new] =
      by_key_.emplace(Key{access.label, access.site, access.stream, owner}, all_.size());
  if (is_new) all_.push_back({access, owner, step, 0});
  ++all_[position->second].count;
}

}  // namespace streamguard::detection
