#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>

namespace streamguard::cupti {

/// The streams whose creation CUPTI has told of: inside a callback nobody may ask CUDA for a
/// stream's flags.
///
/// Thread safety: all members, from anywhere; they take no other lock. Never destroyed.
class HeardStreams {
 public:
  static HeardStreams& get();

  void add(uint64_t handle, bool is_blocking);
  void remove(uint64_t handle);
  void clear();
  /// Whether the stream takes part in fences of the default stream; nothing if it is not known.
  std::optional<bool> is_blocking(uint64_t handle) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, bool> streams_;
};

}  // namespace streamguard::cupti
