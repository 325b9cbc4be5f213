#include "cupti/forwarding.h"

#include "cupti/heard_call.h"
#include "cupti/heard_streams.h"
#include "cupti/parameters.h"

namespace streamguard::cupti {
namespace {

using interposer::RuntimeCalls;

constexpr unsigned int kNonBlocking = 1;  // cudaStreamNonBlocking

// cudaMemcpyKind; with cudaMemcpyDefault (4) the pointers alone say.
enum class Direction : int { kToDevice = 1, kToHost = 2, kInDevice = 3 };

template <class Parameters>
const Parameters& as(const void* parameters) {
  return *static_cast<const Parameters*>(parameters);
}

uint64_t address_of(const void* pointer) { return reinterpret_cast<uint64_t>(pointer); }

HeardCall copy_call(int device, int kind) {
  const bool from_device = kind == static_cast<int>(Direction::kToHost);
  const bool to_device = kind == static_cast<int>(Direction::kToDevice);
  const bool in_device = kind == static_cast<int>(Direction::kInDevice);
  HeardCall call{device};
  if (to_device || in_device) call.target = Place::kDevice;
  if (from_device || in_device) call.source = Place::kDevice;
  return call;
}

void note_allocation(const void* parameters, Place place) {
  const auto& allocation = as<AllocationParameters>(parameters);
  HeardMemory::get().add(address_of(*allocation.memory), allocation.bytes, place);
}

void note_free(const void* parameters) {
  HeardMemory::get().remove(address_of(as<HandleParameters>(parameters).handle));
}

void note_stream(const void* parameters, bool has_flags) {
  const auto& creation = as<StreamCreationParameters>(parameters);
  const bool is_blocking = !has_flags || (creation.flags & kNonBlocking) == 0;
  HeardStreams::get().add(address_of(*creation.stream), is_blocking);
}

void forward_successful(Function function, const void* parameters, int device,
                        const RuntimeCalls& calls) {
  const HeardCall plain{device};
  switch (function) {
    case Function::kMalloc:
    case Function::kMallocManaged:
    case Function::kMallocAsync:
    case Function::kMallocFromPoolAsync:
      return note_allocation(parameters, Place::kDevice);
    case Function::kMallocHost:
    case Function::kHostAlloc:
      return note_allocation(parameters, Place::kPinned);
    case Function::kHostRegister: {
      const auto& registration = as<RegistrationParameters>(parameters);
      return HeardMemory::get().add(address_of(registration.memory), registration.bytes,
                                    Place::kPinned);
    }
    case Function::kFree:
    case Function::kFreeAsync:
    case Function::kFreeHost:
    case Function::kHostUnregister:
      return note_free(parameters);
    case Function::kStreamCreate:
      return note_stream(parameters, false);
    case Function::kStreamCreateWithFlags:
    case Function::kStreamCreateWithPriority:
      return note_stream(parameters, true);
    case Function::kStreamDestroy:
      return HeardStreams::get().remove(address_of(as<HandleParameters>(parameters).handle));
    case Function::kMemcpy: {
      const auto& copy = as<CopyParameters>(parameters);
      const HeardCall call = copy_call(device, copy.kind);
      const HearingCall hearing(call);
      return calls.copied(copy.target, copy.source, copy.bytes, nullptr, true);
    }
    case Function::kMemcpyAsync: {
      const auto& copy = as<CopyParameters>(parameters);
      const HeardCall call = copy_call(device, copy.kind);
      const HearingCall hearing(call);
      return calls.copied(copy.target, copy.source, copy.bytes, copy.stream, false);
    }
    case Function::kMemcpyPeerAsync: {
      const auto& copy = as<PeerCopyParameters>(parameters);
      const HeardCall call = copy_call(device, static_cast<int>(Direction::kInDevice));
      const HearingCall hearing(call);
      return calls.copied(copy.target, copy.source, copy.bytes, copy.stream, false);
    }
    case Function::kMemset: {
      const auto& fill = as<FillParameters>(parameters);
      const HeardCall call = copy_call(device, static_cast<int>(Direction::kInDevice));
      const HearingCall hearing(call);
      return calls.filled(fill.target, fill.bytes, nullptr);
    }
    case Function::kMemsetAsync: {
      const auto& fill = as<FillParameters>(parameters);
      const HeardCall call = copy_call(device, static_cast<int>(Direction::kInDevice));
      const HearingCall hearing(call);
      return calls.filled(fill.target, fill.bytes, fill.stream);
    }
    case Function::kEventRecord:
    case Function::kEventRecordWithFlags: {
      const auto& record = as<RecordParameters>(parameters);
      const HearingCall hearing(plain);
      return calls.recorded(record.event, record.stream);
    }
    case Function::kStreamWaitEvent: {
      const auto& wait = as<WaitParameters>(parameters);
      const HearingCall hearing(plain);
      return calls.waited(wait.stream, wait.event);
    }
    case Function::kEventSynchronize: {
      const HearingCall hearing(plain);
      return calls.event_synchronized(as<HandleParameters>(parameters).handle);
    }
    case Function::kStreamSynchronize: {
      const HearingCall hearing(plain);
      return calls.stream_synchronized(as<HandleParameters>(parameters).handle);
    }
    case Function::kDeviceSynchronize: {
      const HearingCall hearing(plain);
      return calls.device_synchronized();
    }
    case Function::kLaunchKernel: {
      const auto& launch = as<LaunchParameters>(parameters);
      const HearingCall hearing(plain);
      return calls.launched(launch.kernel, false, launch.stream);
    }
    case Function::kLaunchKernelOfStub: {
      const HearingCall hearing(plain);
      return calls.launched(as<LaunchParameters>(parameters).kernel, true, nullptr);
    }
    case Function::kLaunchKernelExC: {
      const auto& launch = as<LaunchExParameters>(parameters);
      const HearingCall hearing(plain);
      return calls.launched(launch.kernel, false, launch.configuration->stream);
    }
    case Function::kGraphLaunch: {
      const HearingCall hearing(plain);
      return calls.graph_launched(as<GraphLaunchParameters>(parameters).stream);
    }
    case Function::kEventQuery: {
      const HearingCall hearing(plain);
      return calls.event_queried(as<HandleParameters>(parameters).handle, true);
    }
    case Function::kStreamQuery: {
      const HearingCall hearing(plain);
      return calls.stream_queried(as<HandleParameters>(parameters).handle, true);
    }
  }
}

}  // namespace

void forward(Function function, const void* parameters, int status, int device,
             const RuntimeCalls& calls) {
  if (status == 0) return forward_successful(function, parameters, device, calls);
  // Of calls that fail only a query says anything: not yet.
  const HeardCall call{device};
  const HearingCall hearing(call);
  const bool is_event = function == Function::kEventQuery;
  if (is_event) calls.event_queried(as<HandleParameters>(parameters).handle, false);
  const bool is_stream = function == Function::kStreamQuery;
  if (is_stream) calls.stream_queried(as<HandleParameters>(parameters).handle, false);
}

}  // namespace streamguard::cupti
