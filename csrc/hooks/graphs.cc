#include "hooks/graphs.h"

#include "hooks/announcer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {

uint32_t begin_capture() {
  const core::StreamId origin = current_stream(current_device());
  const Detector::Access detector(Detector::get());
  if (Detector::get().is_active() && !detector->engine.is_capturing(origin)) {
    detector->engine.begin_capture(origin);
  }
  return origin.value;
}

std::optional<uint32_t> end_capture(uint32_t origin) {
  const Detector::Access detector(Detector::get());
  const auto graph = detector->engine.end_capture(core::StreamId{origin});
  if (!graph) return std::nullopt;
  return graph->value;
}

void order_replay(uint32_t graph) {
  if (!Detector::get().is_active() || !Enforcer::get().is_active()) return;
  Enforcer::get().order_graph(this_thread(), current_stream(current_device()),
                              core::GraphId{graph});
}

void replay_graph(uint32_t graph) {
  Detector& detector = Detector::get();
  if (!detector.is_active()) return;
  const core::HostThreadId thread = this_thread().id;
  const core::StreamId stream = current_stream(current_device());
  {
    const Detector::Access state(detector);
    if (state->engine.is_capturing(stream)) {
      ++state->counters.unknown_replays;
      return;
    }
    const core::GraphSize size = state->engine.size_of(core::GraphId{graph});
    state->engine.launch_graph(thread, core::GraphId{graph}, stream);
    ++state->counters.replays;
    state->counters.ops += size.ops;
    state->counters.accesses += size.accesses;
    state->streams.get(stream).ops += size.ops;
  }
  announce_news();
}

void unknown_graph_replayed() {
  if (!Detector::get().is_active()) return;
  ++Detector::Access(Detector::get())->counters.unknown_replays;
}

void destroy_graph(uint32_t graph) {
  const Detector::Access detector(Detector::get());
  detector->engine.destroy_graph(core::GraphId{graph});
}

}  // namespace streamguard::hooks
