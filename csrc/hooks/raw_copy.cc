#include "hooks/raw_copy.h"

#include <cuda_runtime_api.h>

#include <vector>

#include "cupti/heard_call.h"
#include "hooks/announcer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/op_site.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

enum class Memory : uint8_t { kDevice, kPinned, kPageable };

Memory memory_at(uint64_t address) {
  cudaPointerAttributes attributes{};
  if (cudaPointerGetAttributes(&attributes, reinterpret_cast<const void*>(address)) !=
      cudaSuccess) {
    (void)cudaGetLastError();
    return Memory::kPageable;
  }
  switch (attributes.type) {
    case cudaMemoryTypeHost:
      return Memory::kPinned;
    case cudaMemoryTypeDevice:
    case cudaMemoryTypeManaged:
      return Memory::kDevice;
    case cudaMemoryTypeUnregistered:
      break;
  }
  return Memory::kPageable;
}

Memory memory_of(cupti::Place place) {
  switch (place) {
    case cupti::Place::kDevice:
      return Memory::kDevice;
    case cupti::Place::kPinned:
      return Memory::kPinned;
    case cupti::Place::kUnknown:
      break;
  }
  return Memory::kPageable;
}

Memory memory_of_target(uint64_t address) {
  const cupti::HeardCall* call = cupti::heard_call();
  return call == nullptr ? memory_at(address) : memory_of(call->target_at(address));
}

Memory memory_of_source(uint64_t address) {
  const cupti::HeardCall* call = cupti::heard_call();
  return call == nullptr ? memory_at(address) : memory_of(call->source_at(address));
}

void issue(const char* name, core::StreamId stream, const std::vector<core::Access>& accesses,
           bool is_waited_for) {
  const core::SiteId site = capture_site();
  const core::HostThreadId thread = this_thread().id;
  {
    const Detector::Access detector(Detector::get());
    const core::LabelId label = detector->labels.intern_op(name);
    if (!accesses.empty()) {
      detector->engine.launch(thread, stream, accesses, {label, site});
      if (!detector->engine.is_capturing(stream)) {
        ++detector->counters.ops;
        ++detector->streams.get(stream).ops;
        detector->counters.accesses += accesses.size();
      }
    }
    if (is_waited_for) detector->engine.sync_stream(thread, stream);
  }
  announce_news();
}

core::Region bytes_at(uint64_t address, uint64_t bytes) {
  return core::Region{address, bytes, bytes, 1};
}

}  // namespace

void note_raw_copy(uint64_t target, uint64_t source, uint64_t bytes, uint64_t stream,
                   bool is_blocking) {
  if (bytes == 0) return;
  const Memory to = memory_of_target(target);
  const Memory from = memory_of_source(source);
  std::vector<core::Access> accesses;
  // HB-10: the pageable side is read or written by the host, before the call returns.
  if (from != Memory::kPageable) {
    accesses.push_back({bytes_at(source, bytes), core::AccessKind::kRead});
  }
  if (to != Memory::kPageable) {
    accesses.push_back({bytes_at(target, bytes), core::AccessKind::kWrite});
  }
  // HB-11: a blocking copy between devices does not block the host.
  const bool is_between_devices = to == Memory::kDevice && from == Memory::kDevice;
  const bool is_waited_for =
      to == Memory::kPageable || (is_blocking && !is_between_devices && from != Memory::kPageable);
  issue(is_blocking ? "cudaMemcpy" : "cudaMemcpyAsync", stream_of(current_device(), stream),
        accesses, is_waited_for);
}

void note_raw_fill(uint64_t target, uint64_t bytes, uint64_t stream) {
  if (bytes == 0 || memory_of_target(target) == Memory::kPageable) return;
  issue("cudaMemsetAsync", stream_of(current_device(), stream),
        {{bytes_at(target, bytes), core::AccessKind::kWrite}}, false);
}

}  // namespace streamguard::hooks
