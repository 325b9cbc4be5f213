#include "stream_registry.h"

#include <map>

namespace streamguard::vgpu {

Stream* StreamRegistry::make(int device, StreamKind kind, int priority) {
  storage_.push_back(std::make_unique<Stream>(device, kind, priority, next_id_++));
  Stream* stream = storage_.back().get();
  by_device_[static_cast<size_t>(device)].push_back(stream);
  valid_.insert(stream);
  return stream;
}

Stream* StreamRegistry::create(int device, StreamKind kind, int priority) {
  for (size_t i = 0; i < destroyed_.size(); ++i) {
    Stream* stream = destroyed_[i];
    if (stream->device != device || !stream->pending.empty()) continue;
    destroyed_.erase(destroyed_.begin() + static_cast<std::ptrdiff_t>(i));
    stream->kind = kind;
    stream->priority = priority;
    stream->id = next_id_++;
    stream->index = -1;
    stream->queries = 0;
    valid_.insert(stream);
    return stream;
  }
  return make(device, kind, priority);
}

void StreamRegistry::destroy(Stream* stream) {
  valid_.erase(stream);
  destroyed_.push_back(stream);
}

Stream* StreamRegistry::legacy(int device) {
  while (legacy_.size() <= static_cast<size_t>(device)) {
    legacy_.push_back(make(static_cast<int>(legacy_.size()), StreamKind::kLegacy, 0));
  }
  return legacy_[static_cast<size_t>(device)];
}

Stream* StreamRegistry::per_thread(int device) {
  thread_local std::map<int, Stream*> streams;
  Stream*& stream = streams[device];
  if (stream == nullptr) stream = make(device, StreamKind::kBlocking, 0);
  return stream;
}

Stream* StreamRegistry::resolve(cudaStream_t handle, int device) {
  if (handle == nullptr || handle == cudaStreamLegacy) return legacy(device);
  if (handle == cudaStreamPerThread) return per_thread(device);
  auto* stream = reinterpret_cast<Stream*>(handle);
  return valid_.count(stream) != 0 ? stream : nullptr;
}

void StreamRegistry::note_use(Stream& stream) {
  if (stream.index >= 0) return;
  stream.index = next_index_++;
}

void StreamRegistry::restart_indices() {
  next_index_ = 0;
  for (const auto& stream : storage_) {
    stream->index = -1;
    stream->queries = 0;
  }
}

}  // namespace streamguard::vgpu
