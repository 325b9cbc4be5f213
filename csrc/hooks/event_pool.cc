#include "hooks/event_pool.h"

namespace streamguard::hooks {

void EventPool::fill(int device) {
  const RawDeviceGuard guard(device);
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<cudaEvent_t>& free = free_[static_cast<size_t>(device)];
  while (free.size() < kPrepared) {
    cudaEvent_t event = nullptr;
    // With times: what a wait costs is the time between two of them.
    if (cudaEventCreateWithFlags(&event, cudaEventDefault) != cudaSuccess) {
      (void)cudaGetLastError();
      return;
    }
    free.push_back(event);
  }
  prepared_.fetch_or(uint64_t{1} << device, std::memory_order_relaxed);
}

cudaEvent_t EventPool::take(int device) {
  if (device < 0 || device >= kMaxDevices) return nullptr;
  const std::lock_guard<std::mutex> lock(mutex_);
  std::vector<cudaEvent_t>& free = free_[static_cast<size_t>(device)];
  if (free.empty()) return nullptr;
  const cudaEvent_t event = free.back();
  free.pop_back();
  return event;
}

cudaEvent_t EventPool::take_spare(int device) {
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    if (free_[static_cast<size_t>(device)].size() <= kPrepared / 2) return nullptr;
  }
  return take(device);
}

void EventPool::give_back(int device, cudaEvent_t event) {
  const std::lock_guard<std::mutex> lock(mutex_);
  free_[static_cast<size_t>(device)].push_back(event);
}

}  // namespace streamguard::hooks
