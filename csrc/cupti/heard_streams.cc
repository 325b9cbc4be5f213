#include "cupti/heard_streams.h"

#include <memory>

namespace streamguard::cupti {

HeardStreams& HeardStreams::get() {
  static HeardStreams& streams = *std::make_unique<HeardStreams>().release();
  return streams;
}

void HeardStreams::add(uint64_t handle, bool is_blocking) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_[handle] = is_blocking;
}

void HeardStreams::remove(uint64_t handle) {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.erase(handle);
}

void HeardStreams::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  streams_.clear();
}

std::optional<bool> HeardStreams::is_blocking(uint64_t handle) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto found = streams_.find(handle);
  if (found == streams_.end()) return std::nullopt;
  return found->second;
}

}  // namespace streamguard::cupti
