#include "error_slot.h"

#include <c10/util/Exception.h>

namespace streamguard::values {

ErrorSlot& ErrorSlot::instance() {
  // Never destroyed: worker threads of the runtime may outlive static destruction.
  static auto* const slot = new ErrorSlot;
  return *slot;
}

void ErrorSlot::record(const std::string& op_name, const std::string& reason) {
  const std::lock_guard lock(mutex_);
  if (set_.load(std::memory_order_relaxed)) {
    ++later_failures_;
    return;
  }
  message_ = "the virtual GPU could not compute " + op_name +
             " (reported asynchronously, at a later call): " + reason;
  later_failures_ = 0;
  set_.store(true, std::memory_order_release);
}

std::optional<std::string> ErrorSlot::take() {
  const std::lock_guard lock(mutex_);
  if (!set_.load(std::memory_order_relaxed)) return std::nullopt;
  set_.store(false, std::memory_order_release);
  if (later_failures_ > 0) {
    message_ += "\n(" + std::to_string(later_failures_) + " more failed after it)";
  }
  return std::move(message_);
}

void ErrorSlot::throw_if_set() {
  if (!is_set()) return;
  if (const auto message = take()) TORCH_CHECK(false, *message);
}

}  // namespace streamguard::values
