// The order of lanes: clocks, fences and snapshots.
#ifndef STREAMGUARD_CORE_HAPPENS_BEFORE_H_
#define STREAMGUARD_CORE_HAPPENS_BEFORE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/engine.h"
#include "core/ids.h"
#include "core/race.h"
#include "core/vector_clock.h"

namespace streamguard::core {

// A stored clock: what an event, a message, a freed block or a communicator has seen.
using SnapshotId = StrongId<struct SnapshotTag, std::uint32_t>;

// Keeps for each lane how far it knows every other lane, by rules HB-01 to HB-08.
//
// A value: copying yields an independent order that may be given more edges (the engine does so
// for HB-09). Two copies that are given the same calls hand out the same ids.
//
// Thread safety: none.
// Invariants:
//   1. A lane's own component is the epoch of its newest op.
//   2. Lane a knows lane b up to epoch n exactly when the edges seen so far order b's n-th op
//      before the next op of a.
// Cost: issue O(1) when nothing new is known to the host or the fenced streams, else O(lanes).
class HappensBefore {
 public:
  // HB-02 with one clock per thread: the new thread knows what every thread knows.
  LaneId add_host_lane();
  LaneId add_stream_lane(StreamId stream, DeviceId device, StreamKind kind);
  LaneId add_graph_lane();

  // Orders the next op of `lane` after what its issuing host knows and after the legacy fences.
  // `next_op` is the smallest id that an op after this call can have.
  void order_issue(LaneId lane, LaneId host, OpId next_op);
  // Enters an op of `lane`, after all edges so far. Returns its epoch.
  Epoch enter_op(LaneId lane, OpId op);

  // HB-04: the host has waited for all work of a stream, a device.
  void host_waits_for_stream(LaneId host, LaneId stream, OpId next_op);
  void host_waits_for_device(LaneId host, DeviceId device, OpId next_op);
  // HB-04: the host has waited for the newest op of the lane, not for its fences.
  void host_waits_for_newest_op(LaneId host, LaneId stream, OpId next_op);
  // HB-08: a graph starts after its stream, and the stream goes on after the graph.
  void join_graph(LaneId waiting, LaneId source, OpId next_op);

  SnapshotId new_snapshot();
  void release_snapshot(SnapshotId snapshot);
  // Sets the snapshot to what `lane` knows now; `event` names it in edges.
  void take_snapshot(SnapshotId snapshot, LaneId lane, EventId event);
  // Adds what `lane` knows now.
  void extend_snapshot(SnapshotId snapshot, LaneId lane);
  // The lane is after everything in the snapshot from here on.
  void wait_for_snapshot(LaneId lane, SnapshotId snapshot, OrderEdge::Kind kind, OpId next_op);
  // Remembers which event was recorded last on the lane, for MissingOrder.
  void note_record(LaneId lane, EventId event);

  const VectorClock& clock(LaneId lane) const { return lanes_[lane.value].clock; }
  bool knows(LaneId lane, LaneId other, Epoch epoch) const {
    return clock(lane).knows(other, epoch);
  }
  // Whether nothing that was issued can be unordered with the next op of `lane`.
  bool knows_every_op(LaneId lane) const;
  // Epoch that the next op of `lane` will have.
  Epoch next_epoch(LaneId lane) const { return lanes_[lane.value].newest_epoch + 1; }
  // Whether every host thread knows that epoch: such an access can never race again.
  bool is_known_to_hosts(LaneId lane, Epoch epoch) const {
    for (LaneId host : host_lanes_) {
      if (!lanes_[host.value].clock.knows(lane, epoch)) return false;
    }
    return true;
  }
  bool is_snapshot_known_to_hosts(SnapshotId snapshot) const {
    return is_clock_known_to_hosts(snapshots_[snapshot.value].clock);
  }
  // Whether being after what the lane knows says nothing that the hosts do not say.
  bool is_lane_known_to_hosts(LaneId lane) const { return is_clock_known_to_hosts(clock(lane)); }
  // Edge by which `lane` last learned of `other`; kind kNone when it never did.
  OrderEdge last_edge(LaneId lane, LaneId other) const;
  std::optional<EventId> event_recorded_since(LaneId lane, Epoch epoch) const;
  StreamId stream_of(LaneId lane) const { return lanes_[lane.value].stream; }
  std::size_t lane_count() const { return lanes_.size(); }
  std::size_t snapshot_count() const { return snapshots_.size() - free_snapshots_.size(); }

 private:
  // How much of a source lane was joined last time, so that a join that cannot change anything is
  // skipped.
  struct Seen {
    std::uint64_t version = 0;
    Epoch epoch = 0;
  };
  struct Lane {
    VectorClock clock;
    Epoch newest_epoch = 0;
    OpId newest_op = kNoOp;
    std::uint64_t version = 1;  // grows when the lane learns of another lane
    StreamId stream = kNoStream;
    DeviceId device{-1};
    StreamKind kind = StreamKind::kNonBlocking;
    bool is_host = false;
    EventId last_event;
    Epoch last_event_epoch = 0;
    bool has_event = false;
    std::vector<Seen> seen;        // index: source lane
    std::vector<OrderEdge> edges;  // index: lane learned of
  };
  struct Device {
    DeviceId id;
    std::optional<LaneId> legacy;
    std::vector<LaneId> blocking;
    std::vector<LaneId> streams;  // of every kind
  };
  struct Snapshot {
    VectorClock clock;
    StreamId from = kNoStream;
    OpId newest_op = kNoOp;
    EventId event;
  };

  bool is_clock_known_to_hosts(const VectorClock& clock) const;
  LaneId add_lane();
  Device& device(DeviceId id);
  void join_lane(LaneId waiting, LaneId source, OrderEdge::Kind kind, OpId next_op);
  // Stores by which edge `of` became known: the informant's own where it has one, else `edge`.
  void learn(Lane& waiting, LaneId of, const Lane* informant, const OrderEdge& edge);

  std::vector<Lane> lanes_;
  std::vector<LaneId> host_lanes_;
  std::vector<Device> devices_;
  std::vector<Snapshot> snapshots_;
  std::vector<SnapshotId> free_snapshots_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_HAPPENS_BEFORE_H_
