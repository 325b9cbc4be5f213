// All streams of the process, and which of them a cudaStream_t means.
#ifndef STREAMGUARD_VGPU_RUNTIME_STREAM_REGISTRY_H_
#define STREAMGUARD_VGPU_RUNTIME_STREAM_REGISTRY_H_

#include <memory>
#include <unordered_set>
#include <vector>

#include "stream.h"

namespace streamguard::vgpu {

// Thread safety: guarded by the runtime's lock.
// Invariants: 1. a Stream object lives for ever: marks point to it. 2. an object is used for a new
// stream only after the old one is destroyed and drained, as CUDA reuses handles.
class StreamRegistry {
 public:
  explicit StreamRegistry(int devices) : by_device_(static_cast<size_t>(devices)) {}

  Stream* create(int device, StreamKind kind, int priority);
  // REQUIRES: `stream` came from create(). Work already issued still completes.
  void destroy(Stream* stream);

  Stream* legacy(int device);
  // The calling thread's own default stream: blocking.
  Stream* per_thread(int device);

  // The stream a handle names for a caller whose current device is `device`, null if none.
  Stream* resolve(cudaStream_t handle, int device);

  // Every stream of a device that may hold work.
  const std::vector<Stream*>& of_device(int device) const {
    return by_device_[static_cast<size_t>(device)];
  }
  const std::vector<std::unique_ptr<Stream>>& all() const { return storage_; }

  // Gives a stream its index at its first use.
  void note_use(Stream& stream);
  // Streams that have an index.
  int used_count() const { return next_index_; }
  // Numbers streams anew from their next use.
  void restart_indices();

 private:
  Stream* make(int device, StreamKind kind, int priority);

  std::vector<std::unique_ptr<Stream>> storage_;
  std::vector<std::vector<Stream*>> by_device_;
  std::vector<Stream*> legacy_;
  std::vector<Stream*> destroyed_;
  int next_index_ = 0;
  std::unordered_set<const Stream*> valid_;
  uint64_t next_id_ = 1;
};

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_STREAM_REGISTRY_H_
