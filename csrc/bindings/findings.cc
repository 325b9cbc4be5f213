// Races and watched accesses, as read-only Python objects.
#include <pybind11/stl.h>

#include <optional>

#include "bindings/bindings.h"
#include "core/engine.h"
#include "core/needed_waits.h"
#include "core/race.h"

namespace py = pybind11;

namespace streamguard::bindings {
namespace {

using core::AccessKind;
using core::AccessRecord;
using core::MissingOrder;
using core::NeededWait;
using core::OrderEdge;
using core::Race;
using core::WatchedAccess;

template <typename Id>
std::optional<typename Id::integer_type> unless(Id id, Id none) {
  if (id == none) return std::nullopt;
  return id.value;
}

void bind_enums(py::module_& module) {
  py::enum_<AccessKind>(module, "AccessKind")
      .value("READ", AccessKind::kRead)
      .value("WRITE", AccessKind::kWrite);
  py::enum_<core::StreamKind>(module, "StreamKind")
      .value("LEGACY", core::StreamKind::kLegacy)
      .value("BLOCKING", core::StreamKind::kBlocking)
      .value("NONBLOCKING", core::StreamKind::kNonBlocking);
  py::enum_<core::MemoryKind>(module, "MemoryKind")
      .value("DEVICE", core::MemoryKind::kDevice)
      .value("PINNED", core::MemoryKind::kPinned)
      .value("PAGEABLE", core::MemoryKind::kPageable);
  py::enum_<core::CopyMode>(module, "CopyMode")
      .value("ASYNC", core::CopyMode::kAsync)
      .value("SYNC", core::CopyMode::kSync);
  py::enum_<core::History>(module, "History")
      .value("BOUNDED", core::History::kBounded)
      .value("FULL", core::History::kFull);
  py::enum_<core::WaitOutcome>(module, "WaitOutcome")
      .value("ORDERED", core::WaitOutcome::kOrdered)
      .value("NEVER_RECORDED", core::WaitOutcome::kNeverRecorded)
      .value("FORKED", core::WaitOutcome::kForked)
      .value("CROSSES_CAPTURE", core::WaitOutcome::kCrossesCapture);
  py::enum_<Race::Kind>(module, "RaceKind")
      .value("RAW", Race::Kind::kRaw)
      .value("WAR", Race::Kind::kWar)
      .value("WAW", Race::Kind::kWaw)
      .value("UAF", Race::Kind::kUaf);
  py::enum_<Race::Domain>(module, "RaceDomain")
      .value("DEVICE", Race::Domain::kDevice)
      .value("HOST", Race::Domain::kHost)
      .value("REUSE", Race::Domain::kReuse)
      .value("LIFETIME", Race::Domain::kLifetime);
  py::enum_<OrderEdge::Kind>(module, "EdgeKind")
      .value("NONE", OrderEdge::Kind::kNone)
      .value("STREAM_ORDER", OrderEdge::Kind::kStreamOrder)
      .value("HOST_ISSUE", OrderEdge::Kind::kHostIssue)
      .value("EVENT_WAIT", OrderEdge::Kind::kEventWait)
      .value("HOST_WAIT", OrderEdge::Kind::kHostWait)
      .value("LEGACY_FENCE", OrderEdge::Kind::kLegacyFence)
      .value("MESSAGE", OrderEdge::Kind::kMessage)
      .value("ALLOCATOR", OrderEdge::Kind::kAllocator)
      .value("GRAPH", OrderEdge::Kind::kGraph)
      .value("COMMUNICATOR", OrderEdge::Kind::kCommunicator);
}

void bind_records(py::module_& module) {
  py::class_<AccessRecord>(module, "AccessRecord")
      .def_property_readonly("op", [](const AccessRecord& self) { return self.op.value; })
      .def_property_readonly("label", [](const AccessRecord& self) { return self.label.value; })
      .def_property_readonly("site", [](const AccessRecord& self) { return self.site.value; })
      .def_readonly("on_host", &AccessRecord::on_host)
      .def_property_readonly(
          "stream", [](const AccessRecord& self) { return unless(self.stream, core::kNoStream); })
      .def_property_readonly(
          "thread",
          [](const AccessRecord& self) { return unless(self.thread, core::kNoHostThread); })
      .def_property_readonly("lane", [](const AccessRecord& self) { return self.lane.value; })
      .def_readonly("epoch", &AccessRecord::epoch)
      .def_readonly("region", &AccessRecord::region)
      .def_readonly("kind", &AccessRecord::kind)
      .def_property_readonly("allocation",
                             [](const AccessRecord& self) { return self.allocation.value; });
  py::class_<OrderEdge>(module, "OrderEdge")
      .def_readonly("kind", &OrderEdge::kind)
      .def_property_readonly("event", [](const OrderEdge& self) { return self.event.value; })
      .def_property_readonly(
          "from_stream", [](const OrderEdge& self) { return unless(self.from, core::kNoStream); })
      .def_property_readonly("after_op", [](const OrderEdge& self) { return self.after_op.value; })
      .def_property_readonly("before_op",
                             [](const OrderEdge& self) { return self.before_op.value; });
  py::class_<MissingOrder>(module, "MissingOrder")
      .def_readonly("needed_epoch", &MissingOrder::needed_epoch)
      .def_readonly("known_epoch", &MissingOrder::known_epoch)
      .def_readonly("last_wait", &MissingOrder::last_wait)
      .def_property_readonly("event_after_first",
                             [](const MissingOrder& self) -> std::optional<std::uint64_t> {
                               if (!self.event_after_first) return std::nullopt;
                               return self.event_after_first->value;
                             });
}

}  // namespace

void bind_findings(py::module_& module) {
  bind_enums(module);
  bind_records(module);
  py::class_<Race>(module, "Race")
      .def_readonly("kind", &Race::kind)
      .def_readonly("domain", &Race::domain)
      .def_readonly("first", &Race::first)
      .def_readonly("second", &Race::second)
      .def_property_readonly(
          "overlap",
          [](const Race& self) { return std::pair(self.overlap.begin, self.overlap.end); })
      .def_readonly("missing", &Race::missing);
  py::class_<NeededWait>(module, "NeededWait")
      .def_property_readonly(
          "from_stream", [](const NeededWait& self) { return unless(self.from, core::kNoStream); })
      .def_property_readonly(
          "to_stream", [](const NeededWait& self) { return unless(self.to, core::kNoStream); })
      .def_property_readonly(
          "thread", [](const NeededWait& self) { return unless(self.thread, core::kNoHostThread); })
      .def_property_readonly("after_op", [](const NeededWait& self) { return self.after_op.value; })
      .def_property_readonly("before_op",
                             [](const NeededWait& self) { return self.before_op.value; })
      .def_readonly("races", &NeededWait::races);
  module.def("needed_waits", &core::needed_waits, py::arg("races"));
  py::class_<WatchedAccess::After>(module, "OrderedAfter")
      .def_readonly("earlier", &WatchedAccess::After::earlier)
      .def_readonly("edge", &WatchedAccess::After::edge);
  py::class_<WatchedAccess>(module, "WatchedAccess")
      .def_readonly("access", &WatchedAccess::access)
      .def_readonly("after", &WatchedAccess::after);
}

}  // namespace streamguard::bindings
