// Engine: what an op would reveal, before it is issued.
#include "core/engine_parts.h"

namespace streamguard::core {

std::vector<Race> Engine::Parts::foresee(HostThreadId thread, StreamId on, AccessSpan accesses,
                                         OpInfo info) {
  const LaneId lane = streams[on.value].lane;
  in_both([&](HappensBefore& each) { each.order_issue(lane, host_lane(thread), next_op()); });
  if (order.knows_every_op(lane)) return {};
  return detector.foresee({next_op(), info, lane, order.next_epoch(lane), false, on, thread},
                          accesses);
}

std::vector<Race> Engine::foresee_launch(HostThreadId thread, StreamId stream, AccessSpan accesses,
                                         OpInfo info) {
  if (is_capturing(stream)) return {};
  return parts_->foresee(thread, stream, accesses, info);
}

std::vector<Race> Engine::foresee_collective(HostThreadId thread, StreamId stream,
                                             CommunicatorId communicator, AccessSpan accesses,
                                             OpInfo info) {
  if (is_capturing(stream)) return {};
  Parts& parts = *parts_;
  parts.order_collective(communicator, parts.stream(stream).lane);
  return parts.foresee(thread, stream, accesses, info);
}

std::vector<Race> Engine::foresee_graph(HostThreadId thread, GraphId graph, StreamId stream) {
  Parts& parts = *parts_;
  const bool exists = graph.value < parts.graphs.size() && parts.graphs[graph.value].has_value();
  if (!exists || is_capturing(stream)) return {};
  const Parts::LaunchableGraph& launched = *parts.graphs[graph.value];
  const LaneId on = parts.stream(stream).lane;
  // HB-08: every branch starts with what the origin knows when the graph starts.
  const LaneId origin = launched.lanes.front();
  parts.in_both([&](HappensBefore& each) {
    each.order_issue(on, parts.host_lane(thread), parts.next_op());
    each.join_graph(origin, on, parts.next_op());
  });
  std::vector<Race> foreseen;
  if (parts.order.knows_every_op(origin)) return foreseen;
  for (const GraphStep& step : launched.graph.steps) {
    if (step.kind != GraphStep::Kind::kRun) continue;
    const RunningOp planned{parts.next_op(), step.info, origin, parts.order.next_epoch(origin),
                            false,           stream,    thread};
    const auto races = parts.detector.foresee(planned, launched.graph.accesses_of(step));
    foreseen.insert(foreseen.end(), races.begin(), races.end());
  }
  return foreseen;
}

std::vector<Race> Engine::foresee_host_access(HostThreadId thread, AccessSpan accesses,
                                              OpInfo info) {
  Parts& parts = *parts_;
  const LaneId host = parts.host_lane(thread);
  if (parts.order.knows_every_op(host)) return {};
  return parts.detector.foresee(
      {parts.next_op(), info, host, parts.order.next_epoch(host), true, kNoStream, thread},
      accesses);
}

}  // namespace streamguard::core
