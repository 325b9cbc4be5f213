#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>

namespace streamguard::values {

// Counts what was computed and what was not, since the process started.
//
// Thread safety: all members. Cost: one relaxed increment a computed op.
class Coverage {
 public:
  static Coverage& instance();

  std::atomic<std::uint64_t> twins{0};
  std::atomic<std::uint64_t> at_issue{0};
  std::atomic<std::uint64_t> dry_runs{0};

  // Counts a call whose result is not computed, and warns at the first of that name.
  void note_not_computed(const std::string& op_name);
  std::map<std::string, std::uint64_t> not_computed() const;

 private:
  mutable std::mutex mutex_;
  std::map<std::string, std::uint64_t> not_computed_;
};

}  // namespace streamguard::values
