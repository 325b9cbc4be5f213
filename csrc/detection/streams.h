#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "trace/recorded_engine.h"

namespace streamguard::detection {

struct Stream {
  int device;
  uint64_t handle;  // cudaStream_t; 0 is the legacy default stream of `device`
  core::StreamKind kind;
  std::string role;  // given name, or empty
  uint64_t ops = 0;
};

/// All streams seen so far. A stream is its device and handle, never its role: a communication
/// stream may be a stream of the user's pool.
///
/// Thread safety: none; the detector's mutex serialises all calls.
class StreamTable {
 public:
  explicit StreamTable(trace::RecordedEngine& engine) : engine_(engine) {}

  std::optional<core::StreamId> find(int device, uint64_t handle) const;
  core::StreamId find_or_add(int device, uint64_t handle, core::StreamKind kind);

  /// A role for a stream that may not have been seen yet.
  void set_role(int device, uint64_t handle, const std::string& role);
  /// A role the hooks found out themselves; a name given by the program stays.
  void set_role_if_unnamed(core::StreamId stream, const std::string& role);

  Stream& get(core::StreamId stream) { return streams_[stream.value]; }
  const Stream& get(core::StreamId stream) const { return streams_[stream.value]; }
  std::string name(core::StreamId stream) const;
  const std::vector<Stream>& all() const { return streams_; }

 private:
  void record_name(int device, uint64_t handle, const std::string& role);

  using Key = std::pair<int, uint64_t>;

  trace::RecordedEngine& engine_;
  std::map<Key, core::StreamId> ids_;
  std::map<Key, std::string> roles_of_unseen_;
  std::vector<Stream> streams_;  // index: StreamId, which the engine hands out densely
};

}  // namespace streamguard::detection
