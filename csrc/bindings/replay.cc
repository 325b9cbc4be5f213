// The replayer of traces, fed with columns.
#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "bindings/bindings.h"
#include "detection/finding_dicts.h"
#include "replay/replayer.h"

namespace py = pybind11;

namespace streamguard::bindings {
namespace {

using replay::Batch;
using replay::Replayer;

// Owns copies of a batch's columns, and checks what `Batch` requires.
class OwnedBatch {
 public:
  OwnedBatch(std::size_t rows, const py::dict& columns) {
    batch_.rows = rows;
    column(columns, "verb", rows, batch_.verb);
    column(columns, "kind", rows, batch_.kind);
    column(columns, "device", rows, batch_.device);
    column(columns, "thread", rows, batch_.thread);
    column(columns, "stream", rows, batch_.stream);
    column(columns, "name", rows, batch_.name);
    column(columns, "group", rows, batch_.group);
    column(columns, "site", rows, batch_.site);
    column(columns, "forward_site", rows, batch_.forward_site);
    column(columns, "op", rows, batch_.op);
    column(columns, "id", rows, batch_.id);
    column(columns, "begin", rows, batch_.begin);
    column(columns, "end", rows, batch_.end);
    column(columns, "access_offsets", rows + 1, batch_.access_offsets);
    std::int32_t before = 0;
    for (std::size_t at = 0; at <= rows; ++at) {
      if (batch_.access_offsets[at] < before) throw std::invalid_argument("access_offsets shrink");
      before = batch_.access_offsets[at];
    }
    batch_.accesses = static_cast<std::size_t>(before);
    column(columns, "access_is_write", batch_.accesses, batch_.access_is_write);
    column(columns, "access_begin", batch_.accesses, batch_.access_begin);
    column(columns, "access_width", batch_.accesses, batch_.access_width);
    column(columns, "access_pitch", batch_.accesses, batch_.access_pitch);
    column(columns, "access_rows", batch_.accesses, batch_.access_rows);
    column(columns, "access_allocation", batch_.accesses, batch_.access_allocation);
  }

  const Batch& get() const { return batch_; }

 private:
  template <typename Value>
  void column(const py::dict& columns, const char* name, std::size_t size, const Value*& target) {
    const std::string bytes = columns[name].cast<std::string>();
    if (bytes.size() != size * sizeof(Value)) {
      throw std::invalid_argument(std::string(name) + " has " + std::to_string(bytes.size()) +
                                  " bytes; expected " + std::to_string(size * sizeof(Value)));
    }
    // Words, so that every type is aligned.
    std::vector<std::uint64_t>& kept = kept_.emplace_back((bytes.size() + 15) / 8);
    if (!bytes.empty()) std::memcpy(kept.data(), bytes.data(), bytes.size());
    target = reinterpret_cast<const Value*>(kept.data());
  }

  Batch batch_;
  std::vector<std::vector<std::uint64_t>> kept_;
};

py::dict counts_of(const core::EngineCounts& counts) {
  py::dict result;
  result["ops"] = counts.ops;
  result["accesses"] = counts.accesses;
  return result;
}

py::list all_findings(const Replayer& self, const detection::FramesOf& frames_of) {
  py::list result;
  for (const detection::FindingStore::Finding& finding : self.state().findings.all()) {
    result.append(
        detection::finding_dict(detection::finding_facts(self.state(), finding), frames_of));
  }
  return result;
}

py::dict one_finding(const Replayer& self, int id, const detection::FramesOf& frames_of) {
  const auto& all = self.state().findings.all();
  if (id < 0 || static_cast<std::size_t>(id) >= all.size())
    throw py::index_error("no such finding");
  return detection::finding_dict(
      detection::finding_facts(self.state(), all[static_cast<std::size_t>(id)]), frames_of);
}

py::list all_watched(const Replayer& self, const detection::FramesOf& frames_of) {
  py::list result;
  for (const detection::WatchLog::Entry& entry : self.state().watch_log.entries()) {
    result.append(
        detection::watched_dict(detection::watched_facts(self.state(), entry), frames_of));
  }
  return result;
}

}  // namespace

void bind_replay(py::module_& module) {
  const auto names = [](const auto& texts) {
    return std::vector<std::string>(texts.begin(), texts.end());
  };
  module.attr("TRACE_VERBS") = names(trace::kVerbNames);
  module.attr("TRACE_KINDS") = names(trace::kKindNames);
  py::enum_<Replayer::Stop>(module, "ReplayStop")
      .value("END", Replayer::Stop::kEnd)
      .value("ANNOUNCED", Replayer::Stop::kAnnounced)
      .value("NAMED", Replayer::Stop::kNamed)
      .value("NOTE", Replayer::Stop::kNote)
      .value("ERROR", Replayer::Stop::kError);
  py::class_<OwnedBatch>(module, "ReplayBatch")
      .def(py::init<std::size_t, const py::dict&>(), py::arg("rows"), py::arg("columns"));
  py::class_<Replayer>(module, "Replayer")
      .def(py::init([](core::History history, bool one_host_clock, bool keeps_races) {
             const core::EngineOptions options{history, one_host_clock};
             return std::make_unique<Replayer>(options, keeps_races);
           }),
           py::kw_only(), py::arg("history"), py::arg("one_host_clock"),
           py::arg("keeps_races") = false)
      .def("add_text", &Replayer::add_text, py::arg("text"))
      .def("set_site_count", &Replayer::set_site_count, py::arg("count"))
      .def(
          "feed",
          [](Replayer& self, const OwnedBatch& batch, std::size_t first_row) {
            Replayer::Result result;
            {
              const py::gil_scoped_release unlocked;
              result = self.feed(batch.get(), first_row);
            }
            return py::make_tuple(result.stop, result.next_row, result.error);
          },
          py::arg("batch"), py::arg("first_row"))
      .def("take_unannounced", &Replayer::take_unannounced)
      .def("take_races", &Replayer::take_races)
      .def("finding", &one_finding, py::arg("finding_id"), py::arg("frames_of"))
      .def("findings", &all_findings, py::arg("frames_of"))
      .def("watched", &all_watched, py::arg("frames_of"))
      .def("counts", [](const Replayer& self) { return counts_of(self.state().engine.counts()); });
}

}  // namespace streamguard::bindings
