// Regions and the name table.
#include <pybind11/stl.h>

#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "bindings/bindings.h"
#include "core/name_table.h"
#include "core/region.h"

namespace py = pybind11;

namespace streamguard::bindings {
namespace {

using core::ByteRange;
using core::Region;
using Pair = std::pair<std::uint64_t, std::uint64_t>;

std::optional<Pair> first_overlap(const Region& a, const Region& b, std::optional<Pair> window) {
  const ByteRange within = window ? ByteRange{window->first, window->second} : a.bounds();
  const auto run = core::first_overlap(a, b, within);
  if (!run) return std::nullopt;
  return Pair{run->begin, run->end};
}

std::vector<std::tuple<Pair, Pair, std::string>> look_up(const core::NameTable& names,
                                                         std::uint64_t begin, std::uint64_t end,
                                                         std::uint64_t at, std::uint64_t block) {
  std::vector<std::tuple<Pair, Pair, std::string>> found;
  for (const auto& named : names.lookup({begin, end}, core::OpId{at}, core::AllocationId{block})) {
    found.emplace_back(Pair{named.range.begin, named.range.end},
                       Pair{named.whole.begin, named.whole.end}, named.text);
  }
  return found;
}

}  // namespace

void bind_regions(py::module_& module) {
  py::class_<Region>(module, "Region")
      .def(py::init([](std::uint64_t begin, std::uint64_t width, std::uint64_t pitch,
                       std::uint64_t rows) { return Region{begin, width, pitch, rows}; }),
           py::arg("begin"), py::arg("width"), py::arg("pitch"), py::arg("rows"))
      .def_readonly("begin", &Region::begin)
      .def_readonly("width", &Region::width)
      .def_readonly("pitch", &Region::pitch)
      .def_readonly("rows", &Region::rows)
      .def("normalized", &Region::normalized)
      .def("__eq__", [](const Region& a, const Region& b) { return a == b; });
  module.def("first_overlap", &first_overlap, py::arg("a"), py::arg("b"),
             py::arg("window") = std::nullopt);
  module.def(
      "covers",
      [](const Region& outer, const Region& inner, Pair window) {
        return core::covers(outer, inner, {window.first, window.second});
      },
      py::arg("outer"), py::arg("inner"), py::arg("window"));

  py::class_<core::NameTable>(module, "NameTable")
      .def(py::init<>())
      .def(
          "add",
          [](core::NameTable& names, std::uint64_t begin, std::uint64_t end,
             const std::string& text, std::uint64_t since, std::uint64_t block) {
            names.add({begin, end}, text, core::OpId{since}, core::AllocationId{block});
          },
          py::arg("begin"), py::arg("end"), py::arg("text"), py::arg("since"), py::arg("block"))
      .def("lookup", &look_up, py::arg("begin"), py::arg("end"), py::arg("at"), py::arg("block"))
      .def(
          "forget",
          [](core::NameTable& names, std::uint64_t begin, std::uint64_t end) {
            names.forget({begin, end});
          },
          py::arg("begin"), py::arg("end"))
      .def("names_in_use", &core::NameTable::names_in_use)
      .def("__len__", &core::NameTable::size);
}

}  // namespace streamguard::bindings
