#include "core/engine.h"

#include <utility>

#include "core/engine_parts.h"

namespace streamguard::core {

Engine::Engine(EngineOptions options) : parts_(std::make_unique<Parts>(options)) {}

Engine::~Engine() = default;

StreamId Engine::add_stream(DeviceId device, StreamKind kind) {
  Parts& parts = *parts_;
  if (kind == StreamKind::kLegacy) {
    for (std::uint32_t index = 0; index < parts.streams.size(); ++index) {
      const Parts::Stream& known = parts.streams[index];
      if (known.kind == kind && known.device == device) return StreamId{index};
    }
  }
  const StreamId added{static_cast<std::uint32_t>(parts.streams.size())};
  const LaneId lane = parts.in_both(
      [&](HappensBefore& order) { return order.add_stream_lane(added, device, kind); });
  parts.streams.push_back({lane, device, kind, kNoCapture});
  return added;
}

HostThreadId Engine::add_host_thread() {
  Parts& parts = *parts_;
  const HostThreadId added{static_cast<std::uint32_t>(parts.thread_lanes.size())};
  const bool shares_clock = parts.options.one_host_clock && !parts.thread_lanes.empty();
  parts.thread_lanes.push_back(
      shares_clock ? parts.thread_lanes.front()
                   : parts.in_both([](HappensBefore& order) { return order.add_host_lane(); }));
  return added;
}

OpId Engine::current_op() const { return parts_->newest_op; }

bool Engine::has_races() const { return !parts_->detector.races.empty(); }

std::vector<Race> Engine::take_races() { return std::exchange(parts_->detector.races, {}); }

std::vector<Race> Engine::take_ordered_by_nccl() {
  return std::exchange(parts_->detector.ordered_by_nccl, {});
}

void Engine::watch(ByteRange range) { parts_->detector.watch_log().watch(range); }

void Engine::unwatch(ByteRange range) { parts_->detector.watch_log().unwatch(range); }

std::vector<WatchedAccess> Engine::take_watched() { return parts_->detector.watch_log().take(); }

std::vector<Epoch> Engine::clock_of(StreamId stream) const {
  return parts_->order.clock(lane_of(stream)).epochs();
}

std::vector<Epoch> Engine::clock_of(HostThreadId thread) const {
  return parts_->order.clock(lane_of(thread)).epochs();
}

LaneId Engine::lane_of(StreamId stream) const { return parts_->stream(stream).lane; }

LaneId Engine::lane_of(HostThreadId thread) const { return parts_->host_lane(thread); }

EngineCounts Engine::counts() const {
  const Parts& parts = *parts_;
  EngineCounts counts;
  counts.ops = parts.ops_run;
  counts.accesses = parts.detector.access_count();
  counts.cells = parts.detector.shadow().cell_count();
  counts.entries = parts.detector.shadow().entry_count();
  counts.allocations = parts.allocations.size();
  counts.snapshots = parts.order.snapshot_count();
  counts.lanes = parts.order.lane_count();
  return counts;
}

}  // namespace streamguard::core
