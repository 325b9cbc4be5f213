#pragma once

#include <atomic>
#include <mutex>
#include <optional>
#include <string>

namespace streamguard::values {

// Holds the first failure of a host twin until a call that may throw picks it up.
//
// A twin runs inside cudaLaunchHostFunc, on whichever thread executes the stream, where nothing may
// be thrown. As on a real device, the error therefore surfaces at a later call.
//
// Thread safety: all members. Cost: is_set() is one relaxed load.
class ErrorSlot {
 public:
  static ErrorSlot& instance();

  // Keeps the first failure; later ones are only counted.
  void record(const std::string& op_name, const std::string& reason);
  bool is_set() const { return set_.load(std::memory_order_acquire); }
  // The message, and empties the slot.
  std::optional<std::string> take();
  // Throws c10::Error (RuntimeError in Python) when a failure is held.
  void throw_if_set();

 private:
  std::atomic<bool> set_{false};
  std::mutex mutex_;
  std::string message_;
  unsigned later_failures_ = 0;
};

}  // namespace streamguard::values
