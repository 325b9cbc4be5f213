// Engine: blocks.
#include <algorithm>

#include "core/engine_parts.h"

namespace streamguard::core {
namespace {

constexpr std::size_t kSweptPerFree = 2;
// Guards are few: one per block freed with record_stream and not yet complete.
constexpr std::size_t kGuardsBeforePruning = 64;

}  // namespace

AllocationId Engine::allocate(HostThreadId thread, ByteRange range, MemoryKind kind,
                              StreamId owner) {
  Parts& parts = *parts_;
  parts.wait_for_allocator_events(thread, range);
  parts.retired.remove(range);
  parts.detector.shadow().forget_tenants(range);
  return parts.allocations.add(range, kind, owner);
}

AllocationId Engine::allocation_at(Address address) const {
  return parts_->allocations.at(address);
}

bool Engine::is_live(AllocationId allocation) const {
  const Allocation* found = parts_->allocations.find(allocation);
  return found != nullptr && found->is_live;
}

void Engine::record_stream(AllocationId allocation, StreamId stream) {
  Allocation* found = parts_->allocations.find(allocation);
  if (found == nullptr || !found->is_live || found->owner == stream) return;
  auto& recorded = found->recorded_streams;
  if (std::find(recorded.begin(), recorded.end(), stream) == recorded.end()) {
    recorded.push_back(stream);
  }
}

OpId Engine::free(HostThreadId thread, AllocationId allocation, OpInfo info) {
  Parts& parts = *parts_;
  Allocation* freed = parts.allocations.find(allocation);
  if (freed == nullptr || !freed->is_live) return kNoOp;
  parts.leave_allocator_events(thread, *freed);
  return parts.mark_freed(thread, *freed, info);
}

OpId Engine::free_synchronously(HostThreadId thread, AllocationId allocation, OpInfo info) {
  Parts& parts = *parts_;
  Allocation* freed = parts.allocations.find(allocation);
  if (freed == nullptr || !freed->is_live) return kNoOp;
  const DeviceId device =
      freed->owner == kNoStream ? DeviceId{0} : parts.stream(freed->owner).device;
  sync_device(thread, device);
  return parts.mark_freed(thread, *freed, info);
}

void Engine::forget(ByteRange range) {
  Parts& parts = *parts_;
  parts.detector.shadow().forget(range);
  parts.detector.watch_log().forget(range);
  parts.allocations.forget(range);
  parts.retired.remove(range);
}

// HB-07: an event on each recorded stream, after the work issued to it so far; whoever gets these
// bytes next waits for it on the host.
void Engine::Parts::leave_allocator_events(HostThreadId thread, const Allocation& allocation) {
  std::optional<SnapshotId> snapshot;
  for (StreamId recorded : allocation.recorded_streams) {
    const Stream& on = stream(recorded);
    if (on.capture != kNoCapture) continue;
    if (!snapshot) {
      snapshot = in_both([](HappensBefore& each) { return each.new_snapshot(); });
    }
    in_both([&](HappensBefore& each) {
      each.order_issue(on.lane, host_lane(thread), next_op());
      each.extend_snapshot(*snapshot, on.lane);
    });
  }
  if (!snapshot) return;
  if (guards.size() >= kGuardsBeforePruning) drop_known_guards();
  guards.push_back({allocation.range, *snapshot});
}

void Engine::Parts::wait_for_allocator_events(HostThreadId thread, const ByteRange& range) {
  if (guards.empty()) return;
  bool has_waited = false;
  for (const ReuseGuard& guard : guards) {
    if (!guard.range.overlaps(range)) continue;
    in_both([&](HappensBefore& each) {
      each.wait_for_snapshot(host_lane(thread), guard.snapshot, OrderEdge::Kind::kAllocator,
                             next_op());
    });
    has_waited = true;
  }
  if (has_waited) drop_known_guards();
}

// A guard that every host thread knows cannot teach anyone anything.
void Engine::Parts::drop_known_guards() {
  const auto is_known = [&](const ReuseGuard& guard) {
    if (!order.is_snapshot_known_to_hosts(guard.snapshot)) return false;
    in_both([&](HappensBefore& each) { each.release_snapshot(guard.snapshot); });
    return true;
  };
  guards.erase(std::remove_if(guards.begin(), guards.end(), is_known), guards.end());
}

OpId Engine::Parts::mark_freed(HostThreadId thread, Allocation& allocation, OpInfo info) {
  AccessRecord freed_by;
  freed_by.op = new_op();
  freed_by.label = info.label;
  freed_by.site = info.site;
  freed_by.on_host = true;
  freed_by.thread = thread;
  freed_by.lane = host_lane(thread);
  freed_by.region = Region::of_range(allocation.range);
  freed_by.kind = AccessKind::kWrite;
  freed_by.allocation = allocation.id;
  const ByteRange range = allocation.range;
  allocations.mark_freed(allocation, freed_by);
  detector.shadow().forget_tenants(range);
  retired.add(range);
  sweep(kSweptPerFree);
  return freed_by.op;
}

}  // namespace streamguard::core
