// What an engine is made of. Only the engine_*.cc files include this.
#ifndef STREAMGUARD_CORE_ENGINE_PARTS_H_
#define STREAMGUARD_CORE_ENGINE_PARTS_H_

#include <memory_resource>
#include <optional>
#include <unordered_map>
#include <vector>

#include "core/allocation_table.h"
#include "core/engine.h"
#include "core/graph_capture.h"
#include "core/happens_before.h"
#include "core/race_detector.h"
#include "core/retired_ranges.h"

namespace streamguard::core {

using CaptureId = StrongId<struct CaptureTag, std::uint32_t>;
inline constexpr CaptureId kNoCapture{0};

struct Engine::Parts {
  struct Stream {
    LaneId lane;
    DeviceId device;
    StreamKind kind;
    CaptureId capture = kNoCapture;
  };
  // The newest record of an event.
  struct Event {
    bool is_captured = false;
    SnapshotId snapshot;      // after the record's stream; read by wait_event and host waits
    CaptureId capture;        // when captured
    GraphEventSlot slot = 0;  // when captured
  };
  // What record_stream left at the free of a block: every later block on these bytes waits for it.
  struct ReuseGuard {
    ByteRange range;
    SnapshotId snapshot;
  };
  struct Communicator {
    LaneId lane;          // of the newest collective
    SnapshotId snapshot;  // after the newest collective; the next one waits for it (HB-09)
  };
  struct LaunchableGraph {
    Graph graph;
    std::vector<LaneId> lanes;        // index: branch; the same at every launch (HB-08)
    std::vector<SnapshotId> records;  // index: slot; after the record, for waits of the same launch
  };

  explicit Parts(EngineOptions engine_options)
      : options(engine_options),
        allocations(engine_options.history),
        detector(engine_options.history, order, with_communicators, allocations),
        events(&pool),
        messages(&pool),
        communicators(&pool) {}

  OpId next_op() const { return OpId{newest_op.value + 1}; }
  OpId new_op() { return newest_op = next_op(); }
  LaneId host_lane(HostThreadId thread) const { return thread_lanes[thread.value]; }
  Stream& stream(StreamId id) { return streams[id.value]; }

  // Both orders are given every edge, except that HB-09's go to the second only.
  template <typename Call>
  auto in_both(Call call) {
    if (with_communicators) call(*with_communicators);
    return call(order);
  }

  void wait_on_host(HostThreadId thread, const Stream& on);
  void wait_for_newest_op(HostThreadId thread, const Stream& on);
  OpId run(HostThreadId thread, StreamId on, AccessSpan accesses, OpInfo info);
  std::vector<Race> foresee(HostThreadId thread, StreamId on, AccessSpan accesses, OpInfo info);
  OpId capture_op(Stream& on, CommunicatorId communicator, AccessSpan accesses, OpInfo info);
  void order_collective(CommunicatorId communicator, LaneId lane);
  void note_collective(CommunicatorId communicator, LaneId lane);
  MemoryKind memory_of(AccessSpan accesses, AccessKind kind) const;
  void run_node(HostThreadId thread, StreamId on, const LaunchableGraph& launched,
                const GraphStep& step);
  void release_baked(AccessSpan accesses);
  LaneId new_graph_lane();
  void leave_allocator_events(HostThreadId thread, const Allocation& allocation);
  void wait_for_allocator_events(HostThreadId thread, const ByteRange& range);
  void drop_known_guards();
  OpId mark_freed(HostThreadId thread, Allocation& allocation, OpInfo info);
  void sweep(std::size_t budget);

  EngineOptions options;
  OpId newest_op = kNoOp;
  std::uint64_t ops_run = 0;
  HappensBefore order;
  // The order with HB-09, from when one communicator first ran on two lanes; before that it would
  // be the same.
  std::optional<HappensBefore> with_communicators;
  AllocationTable allocations;
  RaceDetector detector;
  RetiredRanges retired;
  std::vector<Stream> streams;       // index: StreamId
  std::vector<LaneId> thread_lanes;  // index: HostThreadId
  std::pmr::unsynchronized_pool_resource pool;
  std::pmr::unordered_map<EventId, Event> events;
  std::pmr::unordered_map<MessageId, SnapshotId> messages;
  std::pmr::unordered_map<CommunicatorId, Communicator> communicators;
  std::vector<ReuseGuard> guards;
  std::unordered_map<CaptureId, GraphCapture> captures;
  std::uint32_t newest_capture = 0;
  std::vector<std::optional<LaunchableGraph>> graphs;  // index: GraphId
  std::vector<LaneId> free_graph_lanes;
  std::vector<Access> scratch;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ENGINE_PARTS_H_
