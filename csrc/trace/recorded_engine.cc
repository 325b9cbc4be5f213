#include "trace/recorded_engine.h"

namespace streamguard::trace {
namespace {

using core::HostThreadId;
using core::StreamId;

Kind of(core::StreamKind kind) {
  switch (kind) {
    case core::StreamKind::kLegacy:
      return Kind::kLegacy;
    case core::StreamKind::kBlocking:
      return Kind::kBlocking;
    case core::StreamKind::kNonBlocking:
      return Kind::kNonBlocking;
  }
  return Kind::kNone;
}

Kind of(core::MemoryKind kind) {
  switch (kind) {
    case core::MemoryKind::kDevice:
      return Kind::kDevice;
    case core::MemoryKind::kPinned:
      return Kind::kPinned;
    case core::MemoryKind::kPageable:
      return Kind::kPageable;
  }
  return Kind::kNone;
}

Kind of(core::CopyMode mode) { return mode == core::CopyMode::kSync ? Kind::kSync : Kind::kAsync; }

}  // namespace

void RecordedEngine::add_op(Verb verb, HostThreadId thread, StreamId stream,
                            core::AccessSpan accesses, core::OpInfo info, core::OpId op, Kind kind,
                            std::uint64_t id) {
  Row row;
  row.verb = verb;
  row.kind = kind;
  row.thread = thread.value;
  row.stream = stream.value;
  row.label = info.label.value;
  row.site = info.site.value;
  row.op = op.value;
  row.id = id;
  recorder_->add(row, accesses);
}

void RecordedEngine::add_free(Verb verb, HostThreadId thread, core::AllocationId allocation,
                              core::OpInfo info, core::OpId op) {
  if (recorder_ != nullptr) {
    add_op(verb, thread, core::kNoStream, {}, info, op, Kind::kNone, allocation.value);
  }
}

void RecordedEngine::add_order(Verb verb, HostThreadId thread, StreamId stream, std::uint64_t id) {
  if (recorder_ == nullptr) return;
  Row row;
  row.verb = verb;
  row.thread = thread.value;
  row.stream = stream.value;
  row.id = id;
  recorder_->add(row);
}

StreamId RecordedEngine::add_stream(core::DeviceId device, core::StreamKind kind,
                                    std::uint64_t handle) {
  const StreamId added = engine_.add_stream(device, kind);
  if (added.value < stream_count_) return added;  // the legacy stream, once more
  stream_count_ = added.value + 1;
  if (recorder_ != nullptr) {
    Row row;
    row.verb = Verb::kAddStream;
    row.kind = of(kind);
    row.stream = added.value;
    row.device = device.value;
    row.id = handle;
    recorder_->add(row);
  }
  return added;
}

HostThreadId RecordedEngine::add_host_thread() {
  const HostThreadId added = engine_.add_host_thread();
  add_order(Verb::kAddThread, added, core::kNoStream, 0);
  return added;
}

core::AllocationId RecordedEngine::allocate(HostThreadId thread, core::ByteRange range,
                                            core::MemoryKind kind, StreamId owner) {
  const core::AllocationId added = engine_.allocate(thread, range, kind, owner);
  if (recorder_ != nullptr) {
    Row row;
    row.verb = Verb::kAllocate;
    row.kind = of(kind);
    row.thread = thread.value;
    row.stream = owner.value;
    row.id = added.value;
    row.begin = range.begin;
    row.end = range.end;
    recorder_->add(row);
  }
  return added;
}

void RecordedEngine::record_stream(core::AllocationId allocation, StreamId stream) {
  engine_.record_stream(allocation, stream);
  add_order(Verb::kRecordStream, core::kNoHostThread, stream, allocation.value);
}

core::OpId RecordedEngine::free(HostThreadId thread, core::AllocationId allocation,
                                core::OpInfo info) {
  const core::OpId op = engine_.free(thread, allocation, info);
  add_free(Verb::kFree, thread, allocation, info, op);
  return op;
}

core::OpId RecordedEngine::free_synchronously(HostThreadId thread, core::AllocationId allocation,
                                              core::OpInfo info) {
  const core::OpId op = engine_.free_synchronously(thread, allocation, info);
  add_free(Verb::kFreeSynchronously, thread, allocation, info, op);
  return op;
}

void RecordedEngine::forget(core::ByteRange range) {
  engine_.forget(range);
  if (recorder_ == nullptr) return;
  Row row;
  row.verb = Verb::kForget;
  row.begin = range.begin;
  row.end = range.end;
  recorder_->add(row);
}

core::OpId RecordedEngine::collective(HostThreadId thread, StreamId stream,
                                      core::CommunicatorId communicator, core::AccessSpan accesses,
                                      core::OpInfo info) {
  const core::OpId op = engine_.collective(thread, stream, communicator, accesses, info);
  if (recorder_ != nullptr) {
    add_op(Verb::kCollective, thread, stream, accesses, info, op, Kind::kNone, communicator.value);
  }
  return op;
}

core::OpId RecordedEngine::host_access(HostThreadId thread, core::AccessSpan accesses,
                                       core::OpInfo info) {
  const core::OpId op = engine_.host_access(thread, accesses, info);
  if (recorder_ != nullptr) {
    add_op(Verb::kHostAccess, thread, core::kNoStream, accesses, info, op);
  }
  return op;
}

core::OpId RecordedEngine::copy(HostThreadId thread, StreamId stream, core::AccessSpan accesses,
                                core::CopyMode mode, core::OpInfo info) {
  const core::OpId op = engine_.copy(thread, stream, accesses, mode, info);
  if (recorder_ != nullptr) add_op(Verb::kCopy, thread, stream, accesses, info, op, of(mode));
  return op;
}

core::OpId RecordedEngine::memset(HostThreadId thread, StreamId stream, core::AccessSpan accesses,
                                  core::CopyMode mode, core::OpInfo info) {
  const core::OpId op = engine_.memset(thread, stream, accesses, mode, info);
  if (recorder_ != nullptr) add_op(Verb::kMemset, thread, stream, accesses, info, op, of(mode));
  return op;
}

void RecordedEngine::record_event(HostThreadId thread, core::EventId event, StreamId stream) {
  engine_.record_event(thread, event, stream);
  add_order(Verb::kRecordEvent, thread, stream, event.value);
}

core::WaitOutcome RecordedEngine::wait_event(HostThreadId thread, StreamId stream,
                                             core::EventId event) {
  add_order(Verb::kWaitEvent, thread, stream, event.value);
  return engine_.wait_event(thread, stream, event);
}

void RecordedEngine::sync_stream(HostThreadId thread, StreamId stream) {
  engine_.sync_stream(thread, stream);
  add_order(Verb::kSyncStream, thread, stream, 0);
}

core::WaitOutcome RecordedEngine::sync_event(HostThreadId thread, core::EventId event) {
  add_order(Verb::kSyncEvent, thread, core::kNoStream, event.value);
  return engine_.sync_event(thread, event);
}

void RecordedEngine::sync_device(HostThreadId thread, core::DeviceId device) {
  engine_.sync_device(thread, device);
  if (recorder_ == nullptr) return;
  Row row;
  row.verb = Verb::kSyncDevice;
  row.thread = thread.value;
  row.device = device.value;
  recorder_->add(row);
}

core::WaitOutcome RecordedEngine::event_completed(HostThreadId thread, core::EventId event) {
  add_order(Verb::kEventCompleted, thread, core::kNoStream, event.value);
  return engine_.event_completed(thread, event);
}

void RecordedEngine::stream_completed(HostThreadId thread, StreamId stream) {
  engine_.stream_completed(thread, stream);
  add_order(Verb::kStreamCompleted, thread, stream, 0);
}

void RecordedEngine::destroy_event(core::EventId event) {
  engine_.destroy_event(event);
  add_order(Verb::kDestroyEvent, core::kNoHostThread, core::kNoStream, event.value);
}

void RecordedEngine::post(HostThreadId thread, core::MessageId message) {
  engine_.post(thread, message);
  add_order(Verb::kPost, thread, core::kNoStream, message.value);
}

void RecordedEngine::take(HostThreadId thread, core::MessageId message) {
  engine_.take(thread, message);
  add_order(Verb::kTake, thread, core::kNoStream, message.value);
}

void RecordedEngine::begin_capture(StreamId origin) {
  engine_.begin_capture(origin);
  add_order(Verb::kBeginCapture, core::kNoHostThread, origin, 0);
}

std::optional<core::GraphId> RecordedEngine::end_capture(StreamId origin) {
  const std::optional<core::GraphId> graph = engine_.end_capture(origin);
  add_order(Verb::kEndCapture, core::kNoHostThread, origin, graph.value_or(core::kNoGraph).value);
  return graph;
}

core::OpId RecordedEngine::launch_graph(HostThreadId thread, core::GraphId graph, StreamId stream) {
  const core::OpId op = engine_.launch_graph(thread, graph, stream);
  if (recorder_ != nullptr) {
    Row row;
    row.verb = Verb::kLaunchGraph;
    row.thread = thread.value;
    row.stream = stream.value;
    row.op = op.value;
    row.id = graph.value;
    recorder_->add(row);
  }
  return op;
}

void RecordedEngine::destroy_graph(core::GraphId graph) {
  engine_.destroy_graph(graph);
  add_order(Verb::kDestroyGraph, core::kNoHostThread, core::kNoStream, graph.value);
}

}  // namespace streamguard::trace
