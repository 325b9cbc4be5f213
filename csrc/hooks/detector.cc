#include "hooks/detector.h"

namespace streamguard::hooks {

Detector& Detector::get() {
  static Detector& detector = *std::unique_ptr<Detector>(new Detector()).release();
  return detector;
}

void Detector::file_results() {
  DetectorState& state = *state_;
  if (state.engine.has_races()) {
    const size_t before = state.findings.all().size();
    for (const core::Race& race : state.engine.take_races()) state.findings.add(race, state.step);
    if (state.findings.all().size() != before) has_news_.store(true, std::memory_order_release);
  }
  // Pairs that only NCCL's own order keeps apart are no findings, but must not pile up.
  state.counters.ordered_by_nccl += state.engine.take_ordered_by_nccl().size();
  if (!state.watch_log.is_empty()) {
    for (const core::WatchedAccess& access : state.engine.take_watched()) {
      state.watch_log.add(access, state.step);
    }
  }
}

std::vector<int> Detector::take_unannounced() {
  const Access access(*this);
  has_news_.store(false, std::memory_order_release);
  return access->findings.take_unannounced();
}

}  // namespace streamguard::hooks
