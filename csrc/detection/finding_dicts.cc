#include "detection/finding_dicts.h"

#include <string>
#include <utility>
#include <vector>

namespace py = pybind11;

namespace streamguard::detection {
namespace {

py::list to_python(const std::vector<Named>& names) {
  py::list result;
  for (const Named& named : names) {
    py::dict item;
    item["name"] = named.name;
    item["begin"] = named.begin;
    item["end"] = named.end;
    result.append(std::move(item));
  }
  return result;
}

py::object to_python(const StreamFacts& stream) {
  if (!stream.exists) return py::none();
  py::dict result;
  result["device"] = stream.device;
  result["handle"] = stream.handle;
  result["id"] = stream.id;
  result["name"] = stream.name;
  return result;
}

py::list own_frames(core::SiteId site, const FramesOf& frames_of) {
  return frames_of(static_cast<std::uint32_t>(site.value & 0xFFFFFFFFu));
}

py::list forward_frames(core::SiteId site, const FramesOf& frames_of) {
  return frames_of(static_cast<std::uint32_t>(site.value >> 32));
}

const char* text_of(core::AccessKind kind) {
  return kind == core::AccessKind::kWrite ? "write" : "read";
}

py::dict to_python(const AccessFacts& access, const FramesOf& frames_of) {
  const core::AccessRecord& record = access.record;
  py::dict region;
  region["begin"] = record.region.begin;
  region["width"] = record.region.width;
  region["pitch"] = record.region.pitch;
  region["rows"] = record.region.rows;
  py::dict result;
  result["op"] = access.label.op;
  result["op_id"] = record.op.value;
  result["access"] = text_of(record.kind);
  result["on_host"] = record.on_host;
  result["stream"] = to_python(access.stream);
  result["host_thread"] =
      record.thread == core::kNoHostThread ? py::object(py::none()) : py::int_(record.thread.value);
  result["epoch"] = record.epoch;
  result["region"] = std::move(region);
  result["allocation"] = record.allocation.value;
  result["names"] = to_python(access.names);
  result["frames"] = own_frames(record.site, frames_of);
  result["forward_frames"] = forward_frames(record.site, frames_of);
  result["collective"] = py::none();
  if (access.label.is_collective) {
    py::dict collective;
    collective["async"] = access.label.is_async;
    collective["group"] = access.label.group;
    result["collective"] = std::move(collective);
  }
  return result;
}

const char* text_of(core::OrderEdge::Kind kind) {
  using Kind = core::OrderEdge::Kind;
  switch (kind) {
    case Kind::kNone:
      return "none";
    case Kind::kStreamOrder:
      return "stream_order";
    case Kind::kHostIssue:
      return "host_issue";
    case Kind::kEventWait:
      return "event_wait";
    case Kind::kHostWait:
      return "host_wait";
    case Kind::kLegacyFence:
      return "legacy_fence";
    case Kind::kMessage:
      return "message";
    case Kind::kAllocator:
      return "allocator";
    case Kind::kGraph:
      return "graph";
    case Kind::kCommunicator:
      return "communicator";
  }
  return "none";
}

py::dict to_python(const EdgeFacts& facts) {
  py::dict result;
  result["kind"] = text_of(facts.edge.kind);
  result["event"] = facts.edge.event.value;
  result["from_stream"] = facts.from_stream;
  result["after_op"] = facts.edge.after_op.value;
  result["before_op"] = facts.edge.before_op.value;
  return result;
}

const char* text_of(core::Race::Kind kind) {
  using Kind = core::Race::Kind;
  switch (kind) {
    case Kind::kRaw:
      return "RAW";
    case Kind::kWar:
      return "WAR";
    case Kind::kWaw:
      return "WAW";
    case Kind::kUaf:
      return "UAF";
  }
  return "";
}

const char* text_of(core::Race::Domain domain) {
  using Domain = core::Race::Domain;
  switch (domain) {
    case Domain::kDevice:
      return "device";
    case Domain::kHost:
      return "host";
    case Domain::kReuse:
      return "reuse";
    case Domain::kLifetime:
      return "lifetime";
  }
  return "";
}

// The first that fits of SG007, SG004, SG005, SG006, then by kind.
const char* code_of(const core::Race& race, const Label& first) {
  using Domain = core::Race::Domain;
  using Kind = core::Race::Kind;
  if (race.kind == Kind::kUaf) return "SG007";
  if (race.domain == Domain::kReuse) return "SG004";
  if (race.domain == Domain::kHost) return "SG005";
  // The collective came first and nothing waited for its work on behalf of the second access.
  if (first.is_collective && first.is_async) return "SG006";
  switch (race.kind) {
    case Kind::kRaw:
      return "SG001";
    case Kind::kWar:
      return "SG002";
    case Kind::kWaw:
    case Kind::kUaf:
      break;
  }
  return "SG003";
}

py::object step_or_none(int64_t step) {
  if (step < 0) return py::none();
  return py::int_(step);
}

}  // namespace

py::dict finding_dict(const FindingFacts& facts, const FramesOf& frames_of) {
  const core::Race& race = facts.finding.race;
  py::dict overlap;
  overlap["begin"] = race.overlap.begin;
  overlap["end"] = race.overlap.end;
  overlap["names_first"] = to_python(facts.overlap_first);
  overlap["names_second"] = to_python(facts.overlap_second);
  py::dict missing;
  missing["needed_epoch"] = race.missing.needed_epoch;
  missing["known_epoch"] = race.missing.known_epoch;
  missing["last_wait"] = facts.has_last_wait ? py::object(to_python(facts.last_wait)) : py::none();
  missing["event_after_first"] = race.missing.event_after_first.has_value();
  py::dict result;
  result["id"] = facts.finding.id;
  result["code"] = code_of(race, facts.first.label);
  result["kind"] = text_of(race.kind);
  result["domain"] = text_of(race.domain);
  result["count"] = facts.finding.count;
  result["step"] = step_or_none(facts.finding.step);
  result["first"] = to_python(facts.first, frames_of);
  result["second"] = to_python(facts.second, frames_of);
  result["overlap"] = std::move(overlap);
  result["missing"] = std::move(missing);
  result["inserted"] = py::none();
  if (const auto& inserted = facts.finding.inserted) {
    py::dict waits;
    waits["running"] = inserted->running;
    waits["timed"] = inserted->timed;
    waits["waited_ms"] = inserted->waited_ms;
    result["inserted"] = std::move(waits);
  }
  result["tries"] = py::none();
  if (const auto& tries = facts.finding.tries) {
    py::dict tried;
    tried["count"] = tries->count;
    tried["showing"] = tries->showing;
    tried["compared_bytes"] = tries->compared_bytes;
    tried["changed_bytes"] = tries->changed_bytes;
    result["tries"] = std::move(tried);
  }
  return result;
}

py::dict watched_dict(const WatchedFacts& facts, const FramesOf& frames_of) {
  py::list after;
  for (const auto& [earlier, edge] : facts.after) {
    py::dict item;
    item["op"] = earlier.label.op;
    item["access"] = text_of(earlier.record.kind);
    item["stream"] = earlier.stream.exists ? earlier.stream.name : std::string("host");
    item["edge"] = to_python(edge);
    after.append(std::move(item));
  }
  py::dict result;
  result["name"] = facts.entry.name;
  result["op"] = facts.access.label.op;
  result["access"] = text_of(facts.access.record.kind);
  result["stream"] = facts.access.stream.exists ? facts.access.stream.name : std::string("host");
  result["step"] = step_or_none(facts.entry.step);
  result["count"] = facts.entry.count;
  result["frames"] = own_frames(facts.access.record.site, frames_of);
  result["offset"] = py::make_tuple(facts.entry.offset_begin, facts.entry.offset_end);
  result["ordered_after"] = std::move(after);
  return result;
}

}  // namespace streamguard::detection
