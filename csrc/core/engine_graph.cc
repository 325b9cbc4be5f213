// Engine: capture and launch of graphs.
#include "core/engine_parts.h"

namespace streamguard::core {

void Engine::begin_capture(StreamId origin) {
  Parts& parts = *parts_;
  const CaptureId capture{++parts.newest_capture};
  parts.captures.emplace(capture, GraphCapture(origin));
  parts.stream(origin).capture = capture;
}

bool Engine::is_capturing(StreamId stream) const {
  return parts_->stream(stream).capture != kNoCapture;
}

OpId Engine::Parts::capture_op(Stream& on, CommunicatorId communicator, AccessSpan accesses,
                               OpInfo info) {
  GraphCapture& capture = captures.at(on.capture);
  const StreamId id{static_cast<std::uint32_t>(&on - streams.data())};
  scratch.assign(accesses.begin(), accesses.end());
  for (Access& access : scratch) {
    // The address is baked in: a launch touches this block even when it was freed since.
    if (access.allocation == kNoAllocation) {
      access.allocation = allocations.at(access.region.begin);
    }
    allocations.hold_for_graph(access.allocation);
  }
  capture.add_op(*capture.branch_of(id), communicator, scratch, info);
  return kNoOp;
}

std::optional<GraphId> Engine::end_capture(StreamId origin) {
  Parts& parts = *parts_;
  const CaptureId ended = parts.stream(origin).capture;
  const auto capture = parts.captures.find(ended);
  if (capture == parts.captures.end() || capture->second.origin() != origin) return std::nullopt;
  std::optional<Graph> graph = capture->second.finish();
  if (!graph) parts.release_baked(capture->second.accesses());
  parts.captures.erase(capture);
  for (Parts::Stream& stream : parts.streams) {
    if (stream.capture == ended) stream.capture = kNoCapture;
  }
  if (!graph) return std::nullopt;

  Parts::LaunchableGraph launchable{std::move(*graph), {}, {}};
  for (std::size_t branch = 0; branch < launchable.graph.branch_count; ++branch) {
    launchable.lanes.push_back(parts.new_graph_lane());
  }
  for (std::size_t slot = 0; slot < launchable.graph.slot_count; ++slot) {
    launchable.records.push_back(
        parts.in_both([](HappensBefore& each) { return each.new_snapshot(); }));
  }
  parts.graphs.push_back(std::move(launchable));
  return GraphId{static_cast<std::uint32_t>(parts.graphs.size() - 1)};
}

void Engine::Parts::release_baked(AccessSpan accesses) {
  for (const Access& access : accesses) allocations.release_from_graph(access.allocation);
}

LaneId Engine::Parts::new_graph_lane() {
  // A lane is used again only when the hosts know all that it knows, its own ops and those it was
  // joined with: its order would hide a race otherwise.
  for (auto lane = free_graph_lanes.begin(); lane != free_graph_lanes.end(); ++lane) {
    const LaneId candidate = *lane;
    if (!order.is_lane_known_to_hosts(candidate)) continue;
    if (with_communicators && !with_communicators->is_lane_known_to_hosts(candidate)) continue;
    free_graph_lanes.erase(lane);
    return candidate;
  }
  return in_both([](HappensBefore& each) { return each.add_graph_lane(); });
}

OpId Engine::launch_graph(HostThreadId thread, GraphId graph, StreamId stream) {
  Parts& parts = *parts_;
  if (graph.value >= parts.graphs.size() || !parts.graphs[graph.value]) return kNoOp;
  const Parts::LaunchableGraph& launched = *parts.graphs[graph.value];
  const LaneId on = parts.stream(stream).lane;
  const LaneId origin = launched.lanes.front();
  // HB-08: the graph is one op of its stream. Its origin lane is the same at every launch, which
  // orders the launches; the other branches follow from the origin by the captured forks.
  parts.in_both([&](HappensBefore& each) {
    each.order_issue(on, parts.host_lane(thread), parts.next_op());
    each.join_graph(origin, on, parts.next_op());
  });
  for (const GraphStep& step : launched.graph.steps) {
    parts.run_node(thread, stream, launched, step);
  }
  parts.in_both([&](HappensBefore& each) { each.join_graph(on, origin, parts.next_op()); });
  return parts.newest_op;
}

void Engine::Parts::run_node(HostThreadId thread, StreamId on, const LaunchableGraph& launched,
                             const GraphStep& step) {
  const LaneId lane = launched.lanes[step.branch];
  switch (step.kind) {
    case GraphStep::Kind::kRecord:
      in_both([&](HappensBefore& each) {
        each.take_snapshot(launched.records[step.slot], lane, EventId{});
      });
      return;
    case GraphStep::Kind::kWait:
      in_both([&](HappensBefore& each) {
        each.wait_for_snapshot(lane, launched.records[step.slot], OrderEdge::Kind::kGraph,
                               next_op());
      });
      return;
    case GraphStep::Kind::kRun:
      break;
  }
  order_collective(step.communicator, lane);
  const OpId op = new_op();
  ++ops_run;
  const Epoch epoch = in_both([&](HappensBefore& each) { return each.enter_op(lane, op); });
  detector.enter({op, step.info, lane, epoch, false, on, thread}, launched.graph.accesses_of(step));
  note_collective(step.communicator, lane);
}

void Engine::destroy_graph(GraphId graph) {
  Parts& parts = *parts_;
  if (graph.value >= parts.graphs.size() || !parts.graphs[graph.value]) return;
  const Parts::LaunchableGraph& gone = *parts.graphs[graph.value];
  parts.release_baked(gone.graph.accesses);
  for (SnapshotId record : gone.records) {
    parts.in_both([&](HappensBefore& each) { each.release_snapshot(record); });
  }
  parts.free_graph_lanes.insert(parts.free_graph_lanes.end(), gone.lanes.begin(), gone.lanes.end());
  parts.graphs[graph.value].reset();
}

GraphSize Engine::size_of(GraphId graph) const {
  if (graph.value >= parts_->graphs.size() || !parts_->graphs[graph.value]) return {};
  const Graph& found = parts_->graphs[graph.value]->graph;
  GraphSize size{0, found.accesses.size()};
  for (const GraphStep& step : found.steps) size.ops += step.kind == GraphStep::Kind::kRun;
  return size;
}

}  // namespace streamguard::core
