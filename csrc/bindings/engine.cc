// The engine, with ids as integers.
#include "core/engine.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stdexcept>
#include <tuple>
#include <utility>
#include <vector>

#include "bindings/bindings.h"
#include "bindings/trace_columns.h"
#include "trace/recorded_engine.h"
#include "trace/recorder.h"

namespace py = pybind11;

namespace streamguard::bindings {
namespace {

using namespace core;

// Adds the checks of outside input that the engine leaves to its caller.
class CheckedEngine {
 public:
  // begin, width, pitch, rows, kind, allocation
  using PythonAccess = std::tuple<std::uint64_t, std::uint64_t, std::uint64_t, std::uint64_t,
                                  AccessKind, std::uint64_t>;
  using Accesses = std::vector<PythonAccess>;

  CheckedEngine(History history, bool one_host_clock) : engine({history, one_host_clock}) {}

  std::uint32_t add_stream(std::int32_t device, StreamKind kind) {
    // A handle of its own for every stream but the default ones.
    const std::uint64_t handle = kind == StreamKind::kLegacy ? 0 : stream_count + 1;
    const StreamId added = engine.add_stream(DeviceId{device}, kind, handle);
    stream_count = std::max(stream_count, added.value + 1);
    return added.value;
  }
  std::uint32_t add_host_thread() {
    ++thread_count;
    return engine.add_host_thread().value;
  }
  StreamId stream(std::uint32_t value) const {
    if (value >= stream_count) throw std::out_of_range("no such stream");
    return StreamId{value};
  }
  HostThreadId thread(std::uint32_t value) const {
    if (value >= thread_count) throw std::out_of_range("no such host thread");
    return HostThreadId{value};
  }
  static std::vector<Access> converted(const Accesses& accesses) {
    std::vector<Access> result;
    result.reserve(accesses.size());
    for (const auto& [begin, width, pitch, rows, kind, allocation] : accesses) {
      result.push_back({{begin, width, pitch, rows}, kind, AllocationId{allocation}});
    }
    return result;
  }

  void start_trace() {
    if (engine.current_op() != kNoOp || stream_count != 0 || thread_count != 0) {
      throw std::invalid_argument("a trace begins before the first stream, thread and op");
    }
    recorder = std::make_unique<trace::Recorder>();
    engine.record_to(recorder.get());
  }
  py::dict take_trace() {
    if (recorder == nullptr) throw std::invalid_argument("no trace was started");
    const trace::Recorder::Chunk chunk = recorder->take({});
    return dict_of(trace::Columns(chunk), chunk.new_texts);
  }

  trace::RecordedEngine engine;

 private:
  std::unique_ptr<trace::Recorder> recorder;
  std::uint32_t stream_count = 0;
  std::uint32_t thread_count = 0;
};

using Class = py::class_<CheckedEngine>;
using Accesses = CheckedEngine::Accesses;

void bind_memory(Class& engine) {
  engine
      .def(
          "allocate",
          [](CheckedEngine& self, std::uint32_t thread, std::uint64_t begin, std::uint64_t end,
             MemoryKind kind, std::optional<std::uint32_t> owner) {
            const StreamId stream = owner ? self.stream(*owner) : kNoStream;
            return self.engine.allocate(self.thread(thread), {begin, end}, kind, stream).value;
          },
          py::arg("thread"), py::arg("begin"), py::arg("end"), py::arg("kind"), py::arg("owner"))
      .def("allocation_at",
           [](CheckedEngine& self, std::uint64_t address) {
             return self.engine.allocation_at(address).value;
           })
      .def("is_live",
           [](CheckedEngine& self, std::uint64_t allocation) {
             return self.engine.is_live(AllocationId{allocation});
           })
      .def("record_stream",
           [](CheckedEngine& self, std::uint64_t allocation, std::uint32_t stream) {
             self.engine.record_stream(AllocationId{allocation}, self.stream(stream));
           })
      .def("free",
           [](CheckedEngine& self, std::uint32_t thread, std::uint64_t allocation,
              std::uint32_t label) {
             return self.engine
                 .free(self.thread(thread), AllocationId{allocation}, {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("free_synchronously",
           [](CheckedEngine& self, std::uint32_t thread, std::uint64_t allocation,
              std::uint32_t label) {
             return self.engine
                 .free_synchronously(self.thread(thread), AllocationId{allocation},
                                     {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("forget", [](CheckedEngine& self, std::uint64_t begin, std::uint64_t end) {
        self.engine.forget({begin, end});
      });
}

void bind_accesses(Class& engine) {
  engine
      .def("launch",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
              const Accesses& accesses, std::uint32_t label) {
             return self.engine
                 .launch(self.thread(thread), self.stream(stream),
                         CheckedEngine::converted(accesses), {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("collective",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
              std::uint64_t communicator, const Accesses& accesses, std::uint32_t label) {
             return self.engine
                 .collective(self.thread(thread), self.stream(stream), CommunicatorId{communicator},
                             CheckedEngine::converted(accesses), {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("host_access",
           [](CheckedEngine& self, std::uint32_t thread, const Accesses& accesses,
              std::uint32_t label) {
             return self.engine
                 .host_access(self.thread(thread), CheckedEngine::converted(accesses),
                              {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("copy",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
              const Accesses& accesses, CopyMode mode, std::uint32_t label) {
             return self.engine
                 .copy(self.thread(thread), self.stream(stream), CheckedEngine::converted(accesses),
                       mode, {LabelId{label}, SiteId{}})
                 .value;
           })
      .def("memset", [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
                        const Accesses& accesses, CopyMode mode, std::uint32_t label) {
        return self.engine
            .memset(self.thread(thread), self.stream(stream), CheckedEngine::converted(accesses),
                    mode, {LabelId{label}, SiteId{}})
            .value;
      });
}

void bind_foresight(Class& engine) {
  engine
      .def("foresee_launch",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
              const Accesses& accesses, std::uint32_t label) {
             return self.engine.foresee_launch(self.thread(thread), self.stream(stream),
                                               CheckedEngine::converted(accesses),
                                               {LabelId{label}, SiteId{}});
           })
      .def("foresee_collective",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream,
              std::uint64_t communicator, const Accesses& accesses, std::uint32_t label) {
             return self.engine.foresee_collective(
                 self.thread(thread), self.stream(stream), CommunicatorId{communicator},
                 CheckedEngine::converted(accesses), {LabelId{label}, SiteId{}});
           })
      .def(
          "foresee_graph",
          [](CheckedEngine& self, std::uint32_t thread, std::uint32_t graph, std::uint32_t stream) {
            return self.engine.foresee_graph(self.thread(thread), GraphId{graph},
                                             self.stream(stream));
          })
      .def("foresee_host_access", [](CheckedEngine& self, std::uint32_t thread,
                                     const Accesses& accesses, std::uint32_t label) {
        return self.engine.foresee_host_access(
            self.thread(thread), CheckedEngine::converted(accesses), {LabelId{label}, SiteId{}});
      });
}

void bind_order(Class& engine) {
  engine
      .def(
          "record_event",
          [](CheckedEngine& self, std::uint32_t thread, std::uint64_t event, std::uint32_t stream) {
            self.engine.record_event(self.thread(thread), EventId{event}, self.stream(stream));
          })
      .def(
          "wait_event",
          [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream, std::uint64_t event) {
            return self.engine.wait_event(self.thread(thread), self.stream(stream), EventId{event});
          })
      .def("sync_stream",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream) {
             self.engine.sync_stream(self.thread(thread), self.stream(stream));
           })
      .def("sync_event",
           [](CheckedEngine& self, std::uint32_t thread, std::uint64_t event) {
             return self.engine.sync_event(self.thread(thread), EventId{event});
           })
      .def("sync_device",
           [](CheckedEngine& self, std::uint32_t thread, std::int32_t device) {
             self.engine.sync_device(self.thread(thread), DeviceId{device});
           })
      .def("event_completed",
           [](CheckedEngine& self, std::uint32_t thread, std::uint64_t event) {
             return self.engine.event_completed(self.thread(thread), EventId{event});
           })
      .def("stream_completed",
           [](CheckedEngine& self, std::uint32_t thread, std::uint32_t stream) {
             self.engine.stream_completed(self.thread(thread), self.stream(stream));
           })
      .def("destroy_event", [](CheckedEngine& self,
                               std::uint64_t event) { self.engine.destroy_event(EventId{event}); })
      .def("post",
           [](CheckedEngine& self, std::uint32_t thread, std::uint64_t message) {
             self.engine.post(self.thread(thread), MessageId{message});
           })
      .def("take", [](CheckedEngine& self, std::uint32_t thread, std::uint64_t message) {
        self.engine.take(self.thread(thread), MessageId{message});
      });
}

void bind_graphs(Class& engine) {
  engine
      .def("begin_capture",
           [](CheckedEngine& self, std::uint32_t origin) {
             if (self.engine.is_capturing(self.stream(origin))) {
               throw std::invalid_argument("stream is capturing already");
             }
             self.engine.begin_capture(self.stream(origin));
           })
      .def("end_capture",
           [](CheckedEngine& self, std::uint32_t origin) -> std::optional<std::uint32_t> {
             const auto graph = self.engine.end_capture(self.stream(origin));
             if (!graph) return std::nullopt;
             return graph->value;
           })
      .def("is_capturing",
           [](CheckedEngine& self, std::uint32_t stream) {
             return self.engine.is_capturing(self.stream(stream));
           })
      .def(
          "launch_graph",
          [](CheckedEngine& self, std::uint32_t thread, std::uint32_t graph, std::uint32_t stream) {
            if (self.engine.is_capturing(self.stream(stream))) {
              throw std::invalid_argument("stream is capturing");
            }
            return self.engine
                .launch_graph(self.thread(thread), GraphId{graph}, self.stream(stream))
                .value;
          })
      .def("destroy_graph", [](CheckedEngine& self, std::uint32_t graph) {
        self.engine.destroy_graph(GraphId{graph});
      });
}

void bind_results(Class& engine) {
  engine
      .def_property_readonly("current_op",
                             [](CheckedEngine& self) { return self.engine.current_op().value; })
      .def_property_readonly("has_races",
                             [](CheckedEngine& self) { return self.engine.has_races(); })
      .def("take_races", [](CheckedEngine& self) { return self.engine.take_races(); })
      .def("take_ordered_by_nccl",
           [](CheckedEngine& self) { return self.engine.take_ordered_by_nccl(); })
      .def("watch", [](CheckedEngine& self, std::uint64_t begin,
                       std::uint64_t end) { self.engine.watch({begin, end}); })
      .def("unwatch", [](CheckedEngine& self, std::uint64_t begin,
                         std::uint64_t end) { self.engine.unwatch({begin, end}); })
      .def("take_watched", [](CheckedEngine& self) { return self.engine.take_watched(); })
      .def("stream_clock",
           [](CheckedEngine& self, std::uint32_t stream) {
             return self.engine.clock_of(self.stream(stream));
           })
      .def("thread_clock",
           [](CheckedEngine& self, std::uint32_t thread) {
             return self.engine.clock_of(self.thread(thread));
           })
      .def("stream_lane",
           [](CheckedEngine& self, std::uint32_t stream) {
             return self.engine.lane_of(self.stream(stream)).value;
           })
      .def("thread_lane",
           [](CheckedEngine& self, std::uint32_t thread) {
             return self.engine.lane_of(self.thread(thread)).value;
           })
      .def("counts", [](CheckedEngine& self) {
        const EngineCounts counts = self.engine.counts();
        py::dict result;
        result["ops"] = counts.ops;
        result["accesses"] = counts.accesses;
        result["cells"] = counts.cells;
        result["entries"] = counts.entries;
        result["allocations"] = counts.allocations;
        result["snapshots"] = counts.snapshots;
        result["lanes"] = counts.lanes;
        return result;
      });
}

}  // namespace

void bind_engine(py::module_& module) {
  Class engine(module, "Engine");
  engine
      .def(py::init<History, bool>(), py::kw_only(), py::arg("history") = History::kBounded,
           py::arg("one_host_clock") = true)
      .def("add_stream", &CheckedEngine::add_stream, py::arg("device"), py::arg("kind"))
      .def("add_host_thread", &CheckedEngine::add_host_thread)
      .def("start_trace", &CheckedEngine::start_trace)
      .def("take_trace", &CheckedEngine::take_trace);
  bind_memory(engine);
  bind_accesses(engine);
  bind_foresight(engine);
  bind_order(engine);
  bind_graphs(engine);
  bind_results(engine);
}

}  // namespace streamguard::bindings
