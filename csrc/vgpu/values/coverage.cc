#include "coverage.h"

#include <c10/util/Exception.h>

namespace streamguard::values {

Coverage& Coverage::instance() {
  static auto* const coverage = new Coverage;
  return *coverage;
}

void Coverage::note_not_computed(const std::string& op_name) {
  {
    const std::lock_guard lock(mutex_);
    if (++not_computed_[op_name] > 1) return;
  }
  // Outside the lock: a warning handler runs Python.
  TORCH_WARN("the virtual GPU computes no values for ", op_name,
             ": its results are undefined. Stream and event order are still exact.");
}

std::map<std::string, std::uint64_t> Coverage::not_computed() const {
  const std::lock_guard lock(mutex_);
  return not_computed_;
}

}  // namespace streamguard::values
