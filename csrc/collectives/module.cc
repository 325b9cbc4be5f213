// streamguard._collectives: streamguard/_collectives.pyi says what each function does.
#include <pthread.h>
#include <pybind11/functional.h>
#include <pybind11/pybind11.h>
#include <pybind11/stl.h>

#include <string>
#include <utility>

#include "collectives/observer.h"
#include "collectives/unrecorded.h"

namespace py = pybind11;

namespace streamguard::collectives {
namespace {

// What we call from inside a collective must not make the collective fail.
void discard(py::error_already_set& error) { error.discard_as_unraisable("streamguard"); }

Callbacks callbacks_of(py::function on_group, py::function on_site, py::function before) {
  Callbacks callbacks;
  callbacks.on_group = [f = std::move(on_group)](uint32_t number, const std::string& name,
                                                 const std::string& description, int rank,
                                                 int size) {
    try {
      f(number, name, description, rank, size);
    } catch (py::error_already_set& error) {
      discard(error);
    }
  };
  callbacks.on_site = [f = std::move(on_site)](uint32_t site) {
    try {
      f(site);
    } catch (py::error_already_set& error) {
      discard(error);
    }
  };
  callbacks.before = [f = std::move(before)](const Record& record) -> std::string {
    try {
      return f(record.group, record.sequence, record.fingerprint, record.balance)
          .cast<std::string>();
    } catch (py::error_already_set& error) {
      discard(error);
      return "";
    }
  };
  return callbacks;
}

py::list frames_of(uint32_t site) {
  py::list frames;
  for (const hooks::SourceLine& line : stacks().resolve(site)) {
    frames.append(py::make_tuple(line.file, line.line, line.function));
  }
  return frames;
}

py::dict call_dict(const nccl_profiler::NotedCall& call) {
  py::dict values;
  values["function"] = std::string("nccl") + call.function;
  values["type"] = call.type;
  values["count"] = call.count;
  values["send"] = call.send;
  values["receive"] = call.receive;
  values["peer"] = call.peer;
  values["communicator"] = call.communicator;
  values["rank"] = call.rank;
  values["ranks"] = call.ranks;
  values["stream"] = call.stream;
  values["time_ns"] = call.time_ns;
  values["captured"] = call.is_captured != 0;
  values["heard"] = call.was_heard != 0;
  return values;
}

py::object unrecorded_calls() {
  const std::optional<UnrecordedCalls> calls = unrecorded_nccl_calls();
  if (!calls) return py::none();
  py::list newest;
  for (const nccl_profiler::NotedCall& call : calls->newest) newest.append(call_dict(call));
  return py::make_tuple(calls->counts, newest, calls->is_plugin_loaded);
}

// A forked child shares the mapping with its parent: it must not write there.
void deactivate_in_child() { stop(); }

}  // namespace

PYBIND11_MODULE(_collectives, module) {
  pthread_atfork(nullptr, nullptr, deactivate_in_child);
  module.attr("BUILT_FOR_TORCH") = STREAMGUARD_TORCH_VERSION;
  module.def("install", &install);
  module.def("start", [](const std::string& path, uint64_t capacity, int stack_depth, bool is_timed,
                         py::function on_group, py::function on_site, py::function before) {
    start(path, capacity, stack_depth, is_timed,
          callbacks_of(std::move(on_group), std::move(on_site), std::move(before)));
  });
  module.def("stop", &stop);
  module.def("set_strict", &set_strict);
  module.def("forget_groups", &forget_groups);
  module.def("set_step", &set_step);
  module.def("set_times", &set_times);
  module.def("unrecorded_nccl_calls", &unrecorded_calls);
  module.def("frames", &frames_of);
}

}  // namespace streamguard::collectives
