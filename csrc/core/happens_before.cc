#include "core/happens_before.h"

#include <algorithm>
#include <cassert>

namespace streamguard::core {

LaneId HappensBefore::add_lane() {
  lanes_.emplace_back();
  return LaneId{static_cast<std::uint32_t>(lanes_.size() - 1)};
}

LaneId HappensBefore::add_host_lane() {
  VectorClock known_to_all;
  if (!host_lanes_.empty()) {
    for (std::uint32_t index = 0; index < lanes_.size(); ++index) {
      Epoch lowest = ~Epoch{0};
      for (LaneId host : host_lanes_) lowest = std::min(lowest, clock(host).at(LaneId{index}));
      known_to_all.raise(LaneId{index}, lowest);
    }
  }
  const LaneId added = add_lane();
  Lane& lane = lanes_[added.value];
  lane.is_host = true;
  lane.clock = std::move(known_to_all);
  host_lanes_.push_back(added);
  return added;
}

LaneId HappensBefore::add_stream_lane(StreamId stream, DeviceId device_id, StreamKind kind) {
  const LaneId added = add_lane();
  Lane& lane = lanes_[added.value];
  lane.stream = stream;
  lane.device = device_id;
  lane.kind = kind;
  Device& on = device(device_id);
  on.streams.push_back(added);
  switch (kind) {
    case StreamKind::kLegacy:
      assert(!on.legacy);
      on.legacy = added;
      break;
    case StreamKind::kBlocking:
      on.blocking.push_back(added);
      break;
    case StreamKind::kNonBlocking:
      break;
  }
  return added;
}

LaneId HappensBefore::add_graph_lane() { return add_lane(); }

HappensBefore::Device& HappensBefore::device(DeviceId id) {
  for (Device& known : devices_) {
    if (known.id == id) return known;
  }
  devices_.push_back({id, std::nullopt, {}, {}});
  return devices_.back();
}

void HappensBefore::order_issue(LaneId lane, LaneId host, OpId next_op) {
  // HB-02: a device op starts after the host issued it.
  join_lane(lane, host, OrderEdge::Kind::kHostIssue, next_op);
  const Lane& self = lanes_[lane.value];
  switch (self.kind) {
    case StreamKind::kLegacy:
      // HB-05: an op on the legacy stream comes after all earlier work of blocking streams.
      for (LaneId blocking : device(self.device).blocking) {
        join_lane(lane, blocking, OrderEdge::Kind::kLegacyFence, next_op);
      }
      break;
    case StreamKind::kBlocking:
      // HB-05: and before all later work of blocking streams.
      if (const auto legacy = device(self.device).legacy) {
        join_lane(lane, *legacy, OrderEdge::Kind::kLegacyFence, next_op);
      }
      break;
    case StreamKind::kNonBlocking:
      break;
  }
}

Epoch HappensBefore::enter_op(LaneId lane, OpId op) {
  // HB-01: the lane's clock already holds every earlier op of the lane.
  Lane& self = lanes_[lane.value];
  self.newest_op = op;
  self.clock.raise(lane, ++self.newest_epoch);
  return self.newest_epoch;
}

void HappensBefore::host_waits_for_stream(LaneId host, LaneId stream, OpId next_op) {
  join_lane(host, stream, OrderEdge::Kind::kHostWait, next_op);
  const Lane& waited = lanes_[stream.value];
  if (waited.kind != StreamKind::kLegacy) return;
  // HB-05: a host wait for the legacy stream also waits for earlier work of blocking streams.
  for (LaneId blocking : device(waited.device).blocking) {
    join_lane(host, blocking, OrderEdge::Kind::kHostWait, next_op);
  }
}

void HappensBefore::host_waits_for_device(LaneId host, DeviceId device_id, OpId next_op) {
  for (LaneId stream : device(device_id).streams) {
    join_lane(host, stream, OrderEdge::Kind::kHostWait, next_op);
  }
}

void HappensBefore::host_waits_for_newest_op(LaneId host, LaneId stream, OpId next_op) {
  join_lane(host, stream, OrderEdge::Kind::kHostWait, next_op);
}

void HappensBefore::join_graph(LaneId waiting, LaneId source, OpId next_op) {
  join_lane(waiting, source, OrderEdge::Kind::kGraph, next_op);
}

SnapshotId HappensBefore::new_snapshot() {
  if (free_snapshots_.empty()) {
    snapshots_.emplace_back();
    return SnapshotId{static_cast<std::uint32_t>(snapshots_.size() - 1)};
  }
  const SnapshotId reused = free_snapshots_.back();
  free_snapshots_.pop_back();
  snapshots_[reused.value].clock.clear();
  return reused;
}

void HappensBefore::release_snapshot(SnapshotId snapshot) { free_snapshots_.push_back(snapshot); }

void HappensBefore::take_snapshot(SnapshotId snapshot, LaneId lane, EventId event) {
  const Lane& source = lanes_[lane.value];
  Snapshot& stored = snapshots_[snapshot.value];
  stored.clock = source.clock;
  stored.from = source.stream;
  stored.newest_op = source.newest_op;
  stored.event = event;
}

void HappensBefore::extend_snapshot(SnapshotId snapshot, LaneId lane) {
  const Lane& source = lanes_[lane.value];
  Snapshot& stored = snapshots_[snapshot.value];
  stored.clock.join(source.clock, [](LaneId) {});
  stored.from = source.stream;
  stored.newest_op = source.newest_op;
  stored.event = EventId{};
}

void HappensBefore::wait_for_snapshot(LaneId lane, SnapshotId snapshot, OrderEdge::Kind kind,
                                      OpId next_op) {
  const Snapshot& waited = snapshots_[snapshot.value];
  Lane& self = lanes_[lane.value];
  const OrderEdge edge{kind, waited.event, waited.from, waited.newest_op, next_op};
  bool grew = false;
  self.clock.join(waited.clock, [&](LaneId of) {
    learn(self, of, nullptr, edge);
    grew = true;
  });
  if (grew) ++self.version;
}

void HappensBefore::note_record(LaneId lane, EventId event) {
  Lane& self = lanes_[lane.value];
  self.last_event = event;
  self.last_event_epoch = self.newest_epoch;
  self.has_event = true;
}

bool HappensBefore::is_clock_known_to_hosts(const VectorClock& clock) const {
  const auto& epochs = clock.epochs();
  for (std::uint32_t lane = 0; lane < epochs.size(); ++lane) {
    if (!is_known_to_hosts(LaneId{lane}, epochs[lane])) return false;
  }
  return true;
}

bool HappensBefore::knows_every_op(LaneId lane) const {
  const VectorClock& known = clock(lane);
  for (std::uint32_t other = 0; other < lanes_.size(); ++other) {
    if (!known.knows(LaneId{other}, lanes_[other].newest_epoch)) return false;
  }
  return true;
}

OrderEdge HappensBefore::last_edge(LaneId lane, LaneId other) const {
  const auto& edges = lanes_[lane.value].edges;
  return other.value < edges.size() ? edges[other.value] : OrderEdge{};
}

std::optional<EventId> HappensBefore::event_recorded_since(LaneId lane, Epoch epoch) const {
  const Lane& recorded = lanes_[lane.value];
  if (!recorded.has_event || recorded.last_event_epoch < epoch) return std::nullopt;
  return recorded.last_event;
}

void HappensBefore::join_lane(LaneId waiting, LaneId source, OrderEdge::Kind kind, OpId next_op) {
  Lane& self = lanes_[waiting.value];
  const Lane& from = lanes_[source.value];
  if (source.value >= self.seen.size()) self.seen.resize(source.value + 1);
  Seen& seen = self.seen[source.value];
  if (seen.version == from.version && seen.epoch == from.newest_epoch) return;

  const OrderEdge edge{kind, EventId{}, from.stream, from.newest_op, next_op};
  // "The host had waited for it" says more than "the host issued it", and so for a graph.
  const bool passes_edges_on = from.is_host || kind == OrderEdge::Kind::kGraph;
  const Lane* informant = passes_edges_on ? &from : nullptr;
  bool grew = false;
  if (seen.version == from.version) {
    // Since the last join the source learned nothing of others: only its own component moved.
    grew = self.clock.raise(source, from.newest_epoch);
    if (grew) learn(self, source, informant, edge);
  } else {
    self.clock.join(from.clock, [&](LaneId of) {
      learn(self, of, informant, edge);
      grew = true;
    });
  }
  seen.version = from.version;
  seen.epoch = from.newest_epoch;
  if (grew) ++self.version;
}

void HappensBefore::learn(Lane& waiting, LaneId of, const Lane* informant, const OrderEdge& edge) {
  if (of.value >= waiting.edges.size()) waiting.edges.resize(of.value + 1);
  OrderEdge& stored = waiting.edges[of.value];
  const bool is_passed_on = informant != nullptr && of.value < informant->edges.size() &&
                            informant->edges[of.value].kind != OrderEdge::Kind::kNone;
  if (!is_passed_on) {
    stored = edge;
    return;
  }
  stored = informant->edges[of.value];
  stored.before_op = edge.before_op;
}

}  // namespace streamguard::core
