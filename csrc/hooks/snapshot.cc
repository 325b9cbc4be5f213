#include "hooks/snapshot.h"

#include <algorithm>
#include <cstring>

namespace streamguard::hooks {
namespace {

core::ByteRange intersection(core::ByteRange a, core::ByteRange b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

bool is_host_memory(const void* memory) {
  cudaPointerAttributes attributes{};
  const bool is_known = cudaPointerGetAttributes(&attributes, memory) == cudaSuccess;
  if (!is_known) (void)cudaGetLastError();
  return is_known && attributes.type == cudaMemoryTypeHost;
}

struct HostCopy {
  void* target;
  const void* source;
  size_t size;

  static void run(void* copy) {
    const std::unique_ptr<HostCopy> taken(static_cast<HostCopy*>(copy));
    std::memcpy(taken->target, taken->source, taken->size);
  }
};

// Returns: whether the stream will copy.
bool copy(cudaStream_t stream, void* target, const void* source, size_t size) {
  cudaError_t error = cudaSuccess;
  if (is_host_memory(source)) {
    // A copy from host to host would wait for the stream.
    auto host_copy = std::make_unique<HostCopy>(HostCopy{target, source, size});
    error = cudaLaunchHostFunc(stream, &HostCopy::run, host_copy.get());
    if (error == cudaSuccess) (void)host_copy.release();  // the function's
  } else {
    error = cudaMemcpyAsync(target, source, size, cudaMemcpyDeviceToHost, stream);
  }
  if (error != cudaSuccess) (void)cudaGetLastError();
  return error == cudaSuccess;
}

}  // namespace

bool Snapshot::prepare() {
  if (memory_ != nullptr) return true;
  void* memory = nullptr;
  if (cudaHostAlloc(&memory, kCapacity, cudaHostAllocPortable) != cudaSuccess) {
    (void)cudaGetLastError();
    return false;
  }
  memory_ = static_cast<std::byte*>(memory);
  return true;
}

void Snapshot::take(cudaStream_t stream, core::AccessSpan accesses, core::AccessKind kind,
                    core::ByteRange wanted) {
  for (const bool is_wanted : {true, false}) {
    for (const core::Access& access : accesses) {
      if (access.kind != kind) continue;
      // With the gaps between rows, which belong to the same memory.
      core::ByteRange bytes = access.region.bounds();
      const core::ByteRange part = intersection(bytes, wanted);
      if (part.is_empty() == is_wanted) continue;
      if (is_wanted && bytes.size_bytes() > kCapacity) bytes = part;
      take(stream, bytes);
    }
  }
}

void Snapshot::take(cudaStream_t stream, core::ByteRange bytes) {
  if (bytes.is_empty() || pieces_.size() == kMaxPieces) return;
  bytes.end = std::min(bytes.end, bytes.begin + (kCapacity - used_));
  const size_t size = bytes.end - bytes.begin;
  if (size == 0) return;
  if (!copy(stream, memory_ + used_, reinterpret_cast<const void*>(bytes.begin), size)) return;
  pieces_.push_back({bytes, used_});
  used_ += size;
}

void Snapshot::take_on_host(core::ByteRange bytes) {
  bytes.end = std::min(bytes.end, bytes.begin + (kCapacity - used_));
  const size_t size = bytes.end - bytes.begin;
  std::memcpy(memory_ + used_, reinterpret_cast<const void*>(bytes.begin), size);
  pieces_.push_back({bytes, used_});
  used_ += size;
}

core::ByteRange Snapshot::covered(core::ByteRange bytes) const {
  for (const Piece& piece : pieces_) {
    const core::ByteRange part = intersection(piece.bytes, bytes);
    if (!part.is_empty()) return part;
  }
  return {};
}

const std::byte* Snapshot::at(core::ByteRange bytes) const {
  for (const Piece& piece : pieces_) {
    if (piece.bytes.contains(bytes)) {
      return memory_ + piece.offset + (bytes.begin - piece.bytes.begin);
    }
  }
  return nullptr;
}

}  // namespace streamguard::hooks
