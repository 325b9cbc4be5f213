#include "profiled_calls.h"

#include <cstdlib>
#include <cstring>

namespace streamguard::vgpu::nccl {
namespace {

using namespace nccl_profiler;

// Groups are told of to whoever wants anything that happens in them.
constexpr uint64_t kInGroups = kGroupCall | kMessageCall | kCollectiveCall | kKernelLaunch |
                               kGroup | kCollective | kMessage | kProxyOp | kProxyStep |
                               kKernelChannel | kNetwork;
constexpr uint64_t kInLaunches =
    kGroup | kCollective | kMessage | kProxyOp | kProxyStep | kKernelChannel | kNetwork;
constexpr uint64_t kInCollectives = kCollective | kProxyOp | kProxyStep | kKernelChannel | kNetwork;
constexpr uint64_t kInMessages = kMessage | kProxyOp | kProxyStep | kKernelChannel | kNetwork;

const char* function_of(Kind kind) {
  switch (kind) {
    case Kind::kAllReduce:
      return "AllReduce";
    case Kind::kReduce:
      return "Reduce";
    case Kind::kBroadcast:
      return "Broadcast";
    case Kind::kAllGather:
      return "AllGather";
    case Kind::kReduceScatter:
      return "ReduceScatter";
    case Kind::kAllToAll:
      return "AlltoAll";
    case Kind::kGather:
      return "Gather";
    case Kind::kScatter:
      return "Scatter";
    case Kind::kSend:
      return "Send";
    case Kind::kReceive:
      return "Recv";
  }
  return "Invalid";
}

const char* type_text(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "ncclInt8";
    case ncclUint8:
      return "Unknown";  // NCCL 2.30 has no name for it
    case ncclInt32:
      return "ncclInt32";
    case ncclUint32:
      return "ncclUint32";
    case ncclInt64:
      return "ncclInt64";
    case ncclUint64:
      return "ncclUint64";
    case ncclFloat16:
      return "ncclFloat16";
    case ncclFloat32:
      return "ncclFloat32";
    case ncclFloat64:
      return "ncclFloat64";
    case ncclBfloat16:
      return "ncclBfloat16";
    case ncclFloat8e4m3:
      return "ncclFloat8e4m3";
    case ncclFloat8e5m2:
      return "ncclFloat8e5m2";
  }
  return "Unknown";
}

bool is_capturing(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  return cudaStreamIsCapturing(stream, &status) == cudaSuccess &&
         status == cudaStreamCaptureStatusActive;
}

// NCCL 2.30 queues broadcasts apart, so that several become one kernel, and tells no plugin of
// what becomes of them.
bool are_broadcasts_told() {
  const char* value = std::getenv("NCCL_ALLGATHERV_ENABLE");
  return value != nullptr && std::strtoll(value, nullptr, 0) == 0;
}

EventV5 event_of(EventType type) {
  EventV5 event{};
  event.type = type;
  return event;
}

}  // namespace

void ProfiledGroup::begin(const std::shared_ptr<ProfilerContext>& context, int depth,
                          bool is_captured) {
  mask_ = ProfilerContext::mask();
  if (has_begun_ || (mask_ & kInGroups) == 0) return;
  has_begun_ = true;
  context_ = context;
  EventV5 event = event_of(kGroupCall);
  event.group_call.is_captured = is_captured;
  event.group_call.depth = depth;
  handle_ = context_->start(event);
  context_->record_state(handle_, kGroupStartEnded);
}

void ProfiledGroup::end_called() {
  if (context_ != nullptr) context_->record_state(handle_, kGroupEndBegan);
}

void ProfiledGroup::end() {
  if (context_ != nullptr) context_->stop(handle_);
  *this = {};
}

void ProfiledCalls::add(Communicator& communicator, const Call& call, cudaStream_t stream,
                        int depth, ProfiledGroup& group) {
  const bool is_message = call.kind == Kind::kSend || call.kind == Kind::kReceive;
  if (!is_message && (call.count == 0 || communicator.ranks() == 1)) return;
  context_ = communicator.profiler();
  if (context_ == nullptr) return;
  is_captured_ = is_capturing(stream);
  group.begin(context_, depth, is_captured_);
  mask_ = group.mask();
  const auto message = [&](Kind kind, size_t skip_parts, int peer) {
    add_message(call, kind, skip_parts, peer, communicator, stream, group);
  };
  const int ranks = communicator.ranks();
  const bool is_root = communicator.rank() == call.root;
  switch (call.kind) {
    case Kind::kSend:
    case Kind::kReceive:
      message(call.kind, 0, call.root);
      break;
    case Kind::kAllToAll:
      for (int rank = 0; rank < ranks; ++rank) {
        message(Kind::kSend, static_cast<size_t>(rank), rank);
        message(Kind::kReceive, static_cast<size_t>(rank), rank);
      }
      break;
    case Kind::kGather:
      message(Kind::kSend, 0, call.root);
      for (int rank = 0; rank < ranks && is_root; ++rank) {
        message(Kind::kReceive, static_cast<size_t>(rank), rank);
      }
      break;
    case Kind::kScatter:
      for (int rank = 0; rank < ranks && is_root; ++rank) {
        message(Kind::kSend, static_cast<size_t>(rank), rank);
      }
      message(Kind::kReceive, 0, call.root);
      break;
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kBroadcast:
    case Kind::kAllGather:
    case Kind::kReduceScatter:
      add_collective(call, communicator, stream, group);
      break;
  }
}

void ProfiledCalls::add_message(const Call& call, Kind kind, size_t skip_parts, int peer,
                                const Communicator& communicator, cudaStream_t stream,
                                ProfiledGroup& group) {
  EventV5 called = event_of(kMessageCall);
  called.parent = group.handle();
  called.message_call.function = function_of(kind);
  called.message_call.count = call.count;
  called.message_call.type = type_text(call.type);
  called.message_call.stream = stream;
  called.message_call.is_captured = is_captured_;
  void* handle = nullptr;
  if ((mask_ & (kMessageCall | kInMessages)) != 0) handle = context_->start(called);
  EventV5 queued = event_of(kMessage);
  queued.parent = handle;
  queued.rank = communicator.rank();
  const size_t skip = skip_parts * call.count * size_of(call.type);
  const auto* send = static_cast<const char*>(call.send) + skip;
  queued.message.call = {
      called.message_call.function,
      kind == Kind::kSend ? const_cast<char*>(send) : static_cast<char*>(call.receive) + skip,
      called.message_call.type,
      call.count,
      peer,
      1};
  messages_.push_back(queued);
  context_->stop(handle);
}

void ProfiledCalls::add_collective(const Call& call, const Communicator& communicator,
                                   cudaStream_t stream, ProfiledGroup& group) {
  EventV5 called = event_of(kCollectiveCall);
  called.parent = group.handle();
  called.collective_call.function = function_of(call.kind);
  called.collective_call.count = call.count;
  called.collective_call.type = type_text(call.type);
  called.collective_call.root = call.root == -1 ? 0 : call.root;
  called.collective_call.stream = stream;
  called.collective_call.is_captured = is_captured_;
  void* handle = nullptr;
  if ((mask_ & (kCollectiveCall | kInCollectives)) != 0) handle = context_->start(called);
  if (call.kind != Kind::kBroadcast || are_broadcasts_told()) {
    EventV5 queued = event_of(kCollective);
    queued.parent = handle;
    queued.rank = communicator.rank();
    // What needs no arithmetic is queued as bytes.
    const bool is_bytes = call.kind == Kind::kAllGather || call.kind == Kind::kBroadcast;
    queued.collective.call = {0,
                              called.collective_call.function,
                              call.send,
                              call.receive,
                              is_bytes ? call.count * size_of(call.type) : call.count,
                              called.collective_call.root,
                              is_bytes ? "ncclInt8" : called.collective_call.type,
                              1,
                              1,
                              "RING",
                              "SIMPLE"};
    collectives_.push_back(queued);
  }
  context_->stop(handle);
}

void ProfiledCalls::launch_began(cudaStream_t stream) {
  if (collectives_.empty() && messages_.empty()) return;
  if ((mask_ & kKernelLaunch) == 0) return;
  EventV5 event = event_of(kKernelLaunch);
  event.kernel_launch.stream = stream;
  launch_ = context_->start(event);
}

void ProfiledCalls::launch_ended() {
  if (context_ != nullptr) context_->stop(launch_);
}

void ProfiledCalls::launched() {
  if (is_captured_ || (collectives_.empty() && messages_.empty())) return;
  if ((mask_ & kInLaunches) != 0) group_ = context_->start(event_of(kGroup));
  std::vector<void*> handles;
  for (EventV5& event : collectives_) {
    event.collective.group = group_;
    event.collective.call.sequence = context_->next_sequence(event.collective.call.function);
    if ((mask_ & kInCollectives) != 0) handles.push_back(context_->start(event));
  }
  for (EventV5& event : messages_) {
    event.message.group = group_;
    if ((mask_ & kInMessages) != 0) handles.push_back(context_->start(event));
  }
  for (void* handle : handles) context_->stop(handle);
  context_->stop(group_);
}

}  // namespace streamguard::vgpu::nccl
