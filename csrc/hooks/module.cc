// streamguard._hooks: streamguard/_hooks.pyi says what each function does.
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>
#include <torch/csrc/utils/pybind.h>

#include <string>
#include <utility>

#include "bindings/trace_columns.h"
#include "hooks/allocator_trace.h"
#include "hooks/announcer.h"
#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/forked_child.h"
#include "hooks/gpu_trace.h"
#include "hooks/gradient_texts.h"
#include "hooks/graphs.h"
#include "hooks/observer.h"
#include "hooks/python_report.h"
#include "hooks/runtime_calls.h"
#include "hooks/sampling.h"
#include "hooks/session_reset.h"
#include "hooks/thread_state.h"

namespace py = pybind11;

namespace streamguard::hooks {
namespace {

void confirm(const std::string& probes) { Confirmer::get().start(probes); }

void enforce(std::vector<std::string> only, bool is_timed) {
  Enforcer::get().start(std::move(only), is_timed);
}

void flush() {
  Enforcer::get().collect_times();
  {
    // Work of the virtual GPU may run here, and a host function may want the GIL.
    const py::gil_scoped_release unlocked;
    Confirmer::get().collect();
  }
  announce_news();
}

void start(int stack_depth, py::function sink) {
  set_sink([sink = std::move(sink)](int id) {
    try {
      sink(id);
    } catch (py::error_already_set& error) {
      // The op that revealed the finding must not fail for it.
      error.discard_as_unraisable("streamguard's finding sink");
    }
  });
  Detector::get().stacks().set_depth(stack_depth);
  // What ran unwatched since an earlier session cannot be ordered: it must not be accused.
  forget_everything();
  install_gpu_trace();
  attach_runtime();
  Detector::get().set_active(true);
}

void stop() {
  Detector::get().set_active(false);
  detach_runtime();
  Enforcer::get().stop();
  {
    const py::gil_scoped_release unlocked;
    Confirmer::get().stop();
  }
  uninstall_gpu_trace();
  set_sink({});
}

void name_region(uint64_t begin, uint64_t end, const std::string& name, uint64_t since_op) {
  Detector::Access(Detector::get())->name_bytes({begin, end}, name, core::OpId{since_op});
}

void name_stream(int device, uint64_t handle, const std::string& name) {
  Detector::Access(Detector::get())->streams.set_role(device, handle, name);
}

void watch(uint64_t begin, uint64_t end, const std::string& name) {
  Detector::Access(Detector::get())->watch({begin, end}, name);
}

// HB-04: a query that says done orders the host as a wait does.
void event_completed(uint64_t handle) {
  if (!Detector::get().is_active()) return;
  note_told_query(handle);
  const core::HostThreadId thread = this_thread().id;
  Detector::Access(Detector::get())->engine.event_completed(thread, core::EventId{handle});
}

void stream_completed(int device, uint64_t handle) {
  if (!Detector::get().is_active()) return;
  note_told_query(handle);
  const core::StreamId stream = stream_of(static_cast<c10::DeviceIndex>(device), handle);
  const core::HostThreadId thread = this_thread().id;
  Detector::Access(Detector::get())->engine.stream_completed(thread, stream);
}

void activate() { Detector::get().set_active(true); }

bool is_active() { return Detector::get().is_active(); }

uint64_t enter_declared() {
  ++this_thread().declared_depth;
  return this_thread().declared_work;
}

uint64_t leave_declared() {
  --this_thread().declared_depth;
  return this_thread().declared_work;
}

void mute_launches() { ++this_thread().muted_depth; }
void unmute_launches() { --this_thread().muted_depth; }

void forget_last_record() { this_thread().last_record = 0; }

py::dict take_recorded() {
  Detector::Recorded recorded;
  py::dict result;
  {
    const py::gil_scoped_release unlocked;  // lock order: the GIL is taken after no lock of ours
    recorded = Detector::get().take_recorded();
  }
  result = bindings::dict_of(trace::Columns(recorded.chunk), recorded.chunk.new_texts);
  py::list labels;
  for (const detection::Label& label : recorded.new_labels) {
    labels.append(py::make_tuple(label.op, label.is_collective, label.is_async, label.group));
  }
  result["new_labels"] = std::move(labels);
  Detector::get().give_back(std::move(recorded.chunk));
  return result;
}

py::list stacks_after(StackId last) {
  StackTable& stacks = Detector::get().stacks();
  py::list result;
  for (StackId stack = last + 1; stack <= stacks.size(); ++stack) {
    py::list frames;
    for (const SourceLine& line : stacks.resolve(stack)) {
      frames.append(py::make_tuple(line.file, line.line, line.function));
    }
    result.append(std::move(frames));
  }
  return result;
}

void set_recorder_drain(py::object drain) {
  if (drain.is_none()) return set_drain({});
  set_drain([drain = std::move(drain)] {
    try {
      drain();
    } catch (py::error_already_set& error) {
      error.discard_as_unraisable("streamguard's trace");
    }
  });
}

void note(const std::string& text) { Detector::Access(Detector::get())->note(text); }

uint64_t current_op() { return Detector::Access(Detector::get())->engine.current_op().value; }

void set_step(int64_t step) {
  Detector::Access(Detector::get())->set_step(step);
  Sampling::get().set_step(step);
}

void tell_places_apart(uint64_t number) {
  Detector::Access(Detector::get())->places_told_apart = number;
}

void enter_module(uint32_t number) {
  const core::HostThreadId thread = this_thread().id;
  const Detector::Access state(Detector::get());
  state->modules.enter(thread, state->engine.current_op(), number);
}

py::tuple finding_place(int id) {
  const Detector::Access state(Detector::get());
  const auto& all = state->findings.all();
  const detection::FindingStore::Finding& finding = all.at(static_cast<size_t>(id));
  const core::Race& race = finding.race;
  return py::make_tuple(finding.pair, finding.is_rest,
                        state->modules.at(race.first.thread, race.first.op),
                        state->modules.at(race.second.thread, race.second.op));
}

void sample(uint64_t every, std::vector<std::string> streams) {
  Sampling::get().set(every, std::move(streams));
}

}  // namespace
}  // namespace streamguard::hooks

PYBIND11_MODULE(_hooks, module) {
  using namespace streamguard::hooks;
  follow_forks();
  module.attr("BUILT_FOR_TORCH") = STREAMGUARD_TORCH_VERSION;
  module.def("install_observers", &install_observers);
  module.def("attach_allocator_trace", &attach_allocator_trace);
  module.def("is_allocator_traced", &is_allocator_traced);
  module.def("unobserved_kernels", &unobserved_kernels);
  module.def("registration_count", &registration_count);
  module.def("start", &start, py::arg("stack_depth"), py::arg("sink"));
  module.def("stop", &stop);
  module.def("hear_through_cupti", &hear_through_cupti, py::arg("library"),
             py::call_guard<py::gil_scoped_release>());
  module.def("leave_cupti", &leave_cupti, py::call_guard<py::gil_scoped_release>());
  module.def("begin_anew_in_child", &begin_anew_in_child);
  module.def("activate", &activate);
  module.def("sample", &sample, py::arg("every"), py::arg("streams"));
  module.def("tell_places_apart", &tell_places_apart, py::arg("number"));
  module.def("enter_module", &enter_module, py::arg("number"));
  module.def("finding_place", &finding_place, py::arg("finding_id"));
  module.def("enforce", &enforce, py::arg("only"), py::arg("is_timed"));
  module.def("confirm", &confirm, py::arg("probes"));
  module.def("flush", &flush);
  module.def("finding", &finding_as_dict, py::arg("finding_id"));
  module.def("findings", &findings_as_list);
  module.def("watched", &watched_as_list);
  module.def("early_frees", &early_frees_as_list);
  module.def("counters", &counters_as_dict);
  module.def("name_region", &name_region, py::arg("begin"), py::arg("end"), py::arg("name"),
             py::arg("since_op"));
  py::class_<GradientTexts>(module, "GradientTexts")
      .def(py::init<>())
      .def("set_buckets", &GradientTexts::set_buckets, py::arg("buckets"))
      .def("learn", &GradientTexts::learn, py::arg("parameter"), py::arg("gradient"),
           py::arg("text"))
      .def("name", &GradientTexts::name, py::arg("parameter"), py::arg("gradient"),
           py::arg("since_op"));
  module.def("name_stream", &name_stream, py::arg("device"), py::arg("handle"), py::arg("name"));
  module.def("watch", &watch, py::arg("begin"), py::arg("end"), py::arg("name"));
  module.def("current_op", &current_op);
  module.def("event_completed", &event_completed, py::arg("handle"));
  module.def("stream_completed", &stream_completed, py::arg("device"), py::arg("handle"));
  module.def("begin_capture", &begin_capture);
  module.def("end_capture", &end_capture, py::arg("origin"));
  module.def("order_replay", &order_replay, py::arg("graph"));
  module.def("replay_graph", &replay_graph, py::arg("graph"));
  module.def("unknown_graph_replayed", &unknown_graph_replayed);
  module.def("destroy_graph", &destroy_graph, py::arg("graph"));
  module.def("is_active", &is_active);
  module.def("enter_declared", &enter_declared);
  module.def("leave_declared", &leave_declared);
  module.def("mute_launches", &mute_launches);
  module.def("unmute_launches", &unmute_launches);
  module.def("forget_last_record", &forget_last_record);
  module.def("start_recording", [] { Detector::get().start_recording(); });
  module.def("stop_recording", [] { Detector::get().stop_recording(); });
  module.def("take_recorded", &take_recorded);
  module.def("set_recorder_drain", &set_recorder_drain, py::arg("drain"));
  module.def("stacks_after", &stacks_after, py::arg("last"));
  module.def("note", &note, py::arg("text"));
  module.def("set_step", &set_step, py::arg("step"));
}
