#include "hooks/sampling.h"

#include <fnmatch.h>

#include <algorithm>
#include <utility>

namespace streamguard::hooks {

Sampling& Sampling::get() {
  static Sampling& sampling = *std::unique_ptr<Sampling>(new Sampling()).release();
  return sampling;
}

void Sampling::set(uint64_t every, std::vector<std::string> streams) {
  every_.store(std::max<uint64_t>(every, 1));
  streams_ = std::move(streams);
  leaves_step_out_.store(false);
}

void Sampling::set_step(int64_t step) {
  leaves_step_out_.store(step > 0 && static_cast<uint64_t>(step) % every_.load() != 0);
}

bool Sampling::wants(const detection::DetectorState& state, core::StreamId stream) {
  if (leaves_step_out_.load(std::memory_order_relaxed)) {
    ops_of_other_steps_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  if (streams_.empty() || stream == core::kNoStream) return true;
  const std::string name = state.streams.name(stream);
  const bool is_named = std::any_of(streams_.begin(), streams_.end(), [&](const std::string& one) {
    return fnmatch(one.c_str(), name.c_str(), 0) == 0;
  });
  if (!is_named) ops_on_other_streams_.fetch_add(1, std::memory_order_relaxed);
  return is_named;
}

}  // namespace streamguard::hooks
