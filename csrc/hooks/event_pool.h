#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace streamguard::hooks {

/// CUDA events made ahead, so that one can be recorded where nothing may be made: an event is
/// needed while torch's allocator holds its lock.
///
/// Thread safety: all members may be called from any thread. Calls CUDA's event functions only.
/// Memory: kPrepared events a device, and as many more as wait for their times at once.
class EventPool {
 public:
  static constexpr int kMaxDevices = 64;
  static constexpr size_t kPrepared = 32;

  /// Fills the pool of `device`. Cost after the first call: one atomic load.
  void prepare(int device) {
    if (device < 0 || device >= kMaxDevices) return;
    if ((prepared_.load(std::memory_order_relaxed) >> device & 1) == 0) fill(device);
  }

  /// An event of `device`; null when the device has none.
  cudaEvent_t take(int device);
  /// An event that is not missed when it stays away for long; null when few are left.
  cudaEvent_t take_spare(int device);
  void give_back(int device, cudaEvent_t event);

 private:
  void fill(int device);

  std::atomic<uint64_t> prepared_{0};  // one bit a device
  std::mutex mutex_;
  std::array<std::vector<cudaEvent_t>, kMaxDevices> free_;
};

/// Makes a device current and the previous one again, without c10, which may take locks.
class RawDeviceGuard {
 public:
  explicit RawDeviceGuard(int device) {
    is_changed_ = cudaGetDevice(&previous_) == cudaSuccess && previous_ != device &&
                  cudaSetDevice(device) == cudaSuccess;
  }
  ~RawDeviceGuard() {
    if (is_changed_) cudaSetDevice(previous_);
  }
  RawDeviceGuard(const RawDeviceGuard&) = delete;
  RawDeviceGuard& operator=(const RawDeviceGuard&) = delete;

 private:
  int previous_ = 0;
  bool is_changed_ = false;
};

}  // namespace streamguard::hooks
