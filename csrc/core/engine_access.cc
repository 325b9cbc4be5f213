// Engine: ops with accesses.
#include <utility>

#include "core/engine_parts.h"

namespace streamguard::core {

OpId Engine::Parts::run(HostThreadId thread, StreamId on, AccessSpan accesses, OpInfo info) {
  detector.prefetch(accesses);
  const LaneId lane = streams[on.value].lane;
  const LaneId host = host_lane(thread);
  const OpId op = new_op();
  ++ops_run;
  const Epoch epoch = in_both([&](HappensBefore& each) {
    each.order_issue(lane, host, op);
    return each.enter_op(lane, op);
  });
  detector.enter({op, info, lane, epoch, false, on, thread}, accesses);
  return op;
}

OpId Engine::launch(HostThreadId thread, StreamId stream, AccessSpan accesses, OpInfo info) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  if (on.capture != kNoCapture) return parts.capture_op(on, kNoCommunicator, accesses, info);
  return parts.run(thread, stream, accesses, info);
}

OpId Engine::collective(HostThreadId thread, StreamId stream, CommunicatorId communicator,
                        AccessSpan accesses, OpInfo info) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  if (on.capture != kNoCapture) return parts.capture_op(on, communicator, accesses, info);
  parts.order_collective(communicator, on.lane);
  const OpId op = parts.run(thread, stream, accesses, info);
  parts.note_collective(communicator, on.lane);
  return op;
}

void Engine::Parts::order_collective(CommunicatorId communicator, LaneId lane) {
  if (communicator == kNoCommunicator) return;
  const auto found = communicators.find(communicator);
  if (found == communicators.end()) return;
  if (!with_communicators) {
    if (found->second.lane == lane) return;  // HB-01 orders them already
    with_communicators.emplace(order);
  }
  // HB-09: one communicator's collectives run in issue order whatever their streams.
  with_communicators->wait_for_snapshot(lane, found->second.snapshot,
                                        OrderEdge::Kind::kCommunicator, next_op());
}

void Engine::Parts::note_collective(CommunicatorId communicator, LaneId lane) {
  if (communicator == kNoCommunicator) return;
  const auto [at, is_new] = communicators.try_emplace(communicator);
  Communicator& known = at->second;
  if (is_new) known.snapshot = in_both([](HappensBefore& each) { return each.new_snapshot(); });
  known.lane = lane;
  in_both([&](HappensBefore& each) { each.take_snapshot(known.snapshot, lane, EventId{}); });
}

OpId Engine::host_access(HostThreadId thread, AccessSpan accesses, OpInfo info) {
  Parts& parts = *parts_;
  const LaneId host = parts.host_lane(thread);
  const OpId op = parts.new_op();
  ++parts.ops_run;
  const Epoch epoch = parts.in_both([&](HappensBefore& each) { return each.enter_op(host, op); });
  parts.detector.enter({op, info, host, epoch, true, kNoStream, thread}, accesses);
  return op;
}

MemoryKind Engine::Parts::memory_of(AccessSpan accesses, AccessKind kind) const {
  for (const Access& access : accesses) {
    if (access.kind != kind) continue;
    AllocationId id = access.allocation;
    if (id == kNoAllocation) id = allocations.at(access.region.begin);
    const Allocation* allocation = allocations.find(id);
    return allocation == nullptr ? MemoryKind::kDevice : allocation->kind;
  }
  return MemoryKind::kDevice;
}

OpId Engine::copy(HostThreadId thread, StreamId stream, AccessSpan accesses, CopyMode mode,
                  OpInfo info) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  // In a graph every copy is a node: nothing is staged, nobody waits.
  if (on.capture != kNoCapture) return parts.capture_op(on, kNoCommunicator, accesses, info);

  const MemoryKind source = parts.memory_of(accesses, AccessKind::kRead);
  const MemoryKind destination = parts.memory_of(accesses, AccessKind::kWrite);
  const bool from_host = source != MemoryKind::kDevice;
  const bool to_host = destination != MemoryKind::kDevice;

  if (source == MemoryKind::kPageable && !to_host) {
    // HB-10: staged. The host has read the source when the call returns; the device write still
    // runs on the stream. The synchronous form first waits for the stream.
    if (mode == CopyMode::kSync) parts.wait_on_host(thread, on);
    const OpId op = parts.new_op();
    ++parts.ops_run;
    const LaneId host = parts.host_lane(thread);
    const Epoch read_epoch =
        parts.in_both([&](HappensBefore& each) { return each.enter_op(host, op); });
    parts.detector.enter_kind({op, info, host, read_epoch, true, kNoStream, thread}, accesses,
                              AccessKind::kRead);
    const Epoch write_epoch = parts.in_both([&](HappensBefore& each) {
      each.order_issue(on.lane, host, op);
      return each.enter_op(on.lane, op);
    });
    parts.detector.enter_kind({op, info, on.lane, write_epoch, false, stream, thread}, accesses,
                              AccessKind::kWrite);
    return op;
  }

  const OpId op = parts.run(thread, stream, accesses, info);
  // HB-10, HB-11: the host waits for host-to-host copies, for pageable destinations, and for
  // synchronous copies that touch host memory; never for device-to-device copies.
  const bool is_host_to_host = from_host && to_host;
  const bool is_sync_with_host = mode == CopyMode::kSync && (from_host || to_host);
  if (is_host_to_host || destination == MemoryKind::kPageable || is_sync_with_host) {
    parts.wait_for_newest_op(thread, on);
  }
  return op;
}

OpId Engine::memset(HostThreadId thread, StreamId stream, AccessSpan accesses, CopyMode mode,
                    OpInfo info) {
  Parts& parts = *parts_;
  Parts::Stream& on = parts.stream(stream);
  if (on.capture != kNoCapture) return parts.capture_op(on, kNoCommunicator, accesses, info);
  const OpId op = parts.run(thread, stream, accesses, info);
  // HB-12: cudaMemset on device memory does not block the host.
  const bool is_host_memory = parts.memory_of(accesses, AccessKind::kWrite) != MemoryKind::kDevice;
  if (mode == CopyMode::kSync && is_host_memory) parts.wait_for_newest_op(thread, on);
  return op;
}

}  // namespace streamguard::core
