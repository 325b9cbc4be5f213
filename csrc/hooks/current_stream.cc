#include "hooks/current_stream.h"

#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>

#include <array>

#include "cupti/heard_call.h"
#include "cupti/heard_streams.h"
#include "hooks/detector.h"

namespace streamguard::hooks {
namespace {

// cudaStreamLegacy: another name of the default stream, kept apart from it only by its value.
constexpr uint64_t kLegacyHandle = 1;

struct CacheEntry {
  uint64_t key = UINT64_MAX;
  int device = -1;
  core::StreamId stream;
};

using Cache = std::array<CacheEntry, 16>;

thread_local Cache streams_by_handle{};
thread_local Cache streams_by_torch_id{};

CacheEntry& slot_of(Cache& cache, int device, uint64_t key) {
  // Handles are pointers and torch's ids count in steps of 2: mix before taking the low bits.
  const uint64_t mixed = (key ^ static_cast<uint64_t>(device + 1)) * 0x9E3779B97F4A7C15ull;
  return cache[mixed >> 60];
}

core::StreamKind kind_of(uint64_t handle) {
  if (handle == 0) return core::StreamKind::kLegacy;
  if (cupti::heard_call() != nullptr) {
    // A stream that nobody told of counts as below.
    const bool is_blocking = cupti::HeardStreams::get().is_blocking(handle).value_or(true);
    return is_blocking ? core::StreamKind::kBlocking : core::StreamKind::kNonBlocking;
  }
  unsigned int flags = cudaStreamDefault;
  const auto stream = reinterpret_cast<cudaStream_t>(handle);
  if (cudaStreamGetFlags(stream, &flags) != cudaSuccess) {
    (void)cudaGetLastError();
    return core::StreamKind::kBlocking;  // may hide a race behind a fence, but cannot invent one
  }
  return (flags & cudaStreamNonBlocking) != 0 ? core::StreamKind::kNonBlocking
                                              : core::StreamKind::kBlocking;
}

}  // namespace

core::StreamId stream_of(c10::DeviceIndex device, uint64_t handle) {
  if (handle == kLegacyHandle) handle = 0;
  CacheEntry& entry = slot_of(streams_by_handle, device, handle);
  if (entry.key == handle && entry.device == device) return entry.stream;
  const core::StreamKind kind = kind_of(handle);
  const Detector::Access detector(Detector::get());
  entry = {handle, device, detector->streams.find_or_add(device, handle, kind)};
  return entry.stream;
}

core::StreamId stream_of_torch(const c10::Stream& stream) {
  const auto torch_id = static_cast<uint64_t>(stream.id());
  const c10::DeviceIndex device = stream.device_index();
  CacheEntry& entry = slot_of(streams_by_torch_id, device, torch_id);
  if (entry.key == torch_id && entry.device == device) return entry.stream;
  const c10::cuda::CUDAStream cuda_stream(c10::cuda::CUDAStream::UNCHECKED, stream);
  const auto handle = reinterpret_cast<uint64_t>(cuda_stream.stream());
  const core::StreamId found = stream_of(device, handle);
  entry = {torch_id, device, found};
  return found;
}

void forget_streams_of_this_thread() {
  streams_by_handle = {};
  streams_by_torch_id = {};
}

core::StreamId current_stream(c10::DeviceIndex device) {
  return stream_of_torch(c10::cuda::getCurrentCUDAStream(device).unwrap());
}

c10::DeviceIndex current_device() {
  if (const cupti::HeardCall* call = cupti::heard_call()) {
    return static_cast<c10::DeviceIndex>(call->device);
  }
  return c10::cuda::current_device();
}

}  // namespace streamguard::hooks
