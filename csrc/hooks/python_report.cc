#include "hooks/python_report.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "hooks/detector.h"
#include "hooks/runtime_calls.h"

namespace py = pybind11;

namespace streamguard::hooks {
namespace {

// Facts are copied out under the mutex and turned into Python objects after it: making an object
// may run the garbage collector, and that frees tensors.
struct Named {
  std::string name;
  uint64_t begin;
  uint64_t end;
};

struct StreamFacts {
  bool exists = false;
  int device = 0;
  uint64_t handle = 0;
  uint32_t id = 0;
  std::string name;
};

struct AccessFacts {
  core::AccessRecord record;
  Label label;
  StreamFacts stream;
  std::vector<Named> names;
};

struct EdgeFacts {
  core::OrderEdge edge;
  std::string from_stream;
};

std::vector<Named> names_of(const DetectorState& state, core::ByteRange bytes, core::OpId at) {
  std::vector<Named> names;
  for (const core::NameTable::Named& found : state.names.lookup(bytes, at)) {
    if (found.text.empty()) continue;
    names.push_back(
        {found.text, found.range.begin - found.whole.begin, found.range.end - found.whole.begin});
  }
  return names;
}

// A block is often named by code that runs after its first op: such a name holds for the earlier
// ops too, as long as the bytes are still the same block.
std::vector<Named> names_of(const DetectorState& state, const core::AccessRecord& record,
                            core::ByteRange bytes) {
  std::vector<Named> names = names_of(state, bytes, record.op);
  const bool is_same_block = record.allocation == state.engine.allocation_at(bytes.begin);
  if (names.empty() && is_same_block) names = names_of(state, bytes, state.engine.current_op());
  return names;
}

StreamFacts stream_facts(const DetectorState& state, core::StreamId stream) {
  if (stream == core::kNoStream) return {};
  const Stream& info = state.streams.get(stream);
  return {true, info.device, info.handle, stream.value, state.streams.name(stream)};
}

AccessFacts access_facts(const DetectorState& state, const core::AccessRecord& record) {
  return {record, state.labels.get(record.label),
          stream_facts(state, record.on_host ? core::kNoStream : record.stream),
          names_of(state, record, record.region.bounds())};
}

EdgeFacts edge_facts(const DetectorState& state, const core::OrderEdge& edge) {
  return {edge, edge.from == core::kNoStream ? std::string("host") : state.streams.name(edge.from)};
}

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

py::list frames_to_python(StackId stack) {
  py::list result;
  for (const SourceLine& line : Detector::get().stacks().resolve(stack)) {
    result.append(py::make_tuple(line.file, line.line, line.function));
  }
  return result;
}

py::list own_frames(core::SiteId site) {
  return frames_to_python(static_cast<StackId>(site.value & 0xFFFFFFFFu));
}

py::list forward_frames(core::SiteId site) {
  return frames_to_python(static_cast<StackId>(site.value >> 32));
}

const char* text_of(core::AccessKind kind) {
  return kind == core::AccessKind::kWrite ? "write" : "read";
}

py::dict to_python(const AccessFacts& access) {
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
  result["frames"] = own_frames(record.site);
  result["forward_frames"] = forward_frames(record.site);
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

struct FindingFacts {
  FindingStore::Finding finding;
  AccessFacts first;
  AccessFacts second;
  std::vector<Named> overlap_first;
  std::vector<Named> overlap_second;
  bool has_last_wait = false;
  EdgeFacts last_wait;
};

FindingFacts finding_facts(const DetectorState& state, const FindingStore::Finding& finding) {
  const core::Race& race = finding.race;
  FindingFacts facts{finding,
                     access_facts(state, race.first),
                     access_facts(state, race.second),
                     names_of(state, race.first, race.overlap),
                     names_of(state, race.second, race.overlap),
                     race.missing.last_wait.has_value(),
                     {}};
  if (race.missing.last_wait) facts.last_wait = edge_facts(state, *race.missing.last_wait);
  return facts;
}

py::dict to_python(const FindingFacts& facts) {
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
  result["first"] = to_python(facts.first);
  result["second"] = to_python(facts.second);
  result["overlap"] = std::move(overlap);
  result["missing"] = std::move(missing);
  return result;
}

struct WatchedFacts {
  WatchLog::Entry entry;
  AccessFacts access;
  std::vector<std::pair<AccessFacts, EdgeFacts>> after;
};

py::dict to_python(const WatchedFacts& facts) {
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
  result["frames"] = own_frames(facts.access.record.site);
  result["offset"] = py::make_tuple(facts.entry.offset_begin, facts.entry.offset_end);
  result["ordered_after"] = std::move(after);
  return result;
}

}  // namespace

py::dict finding_as_dict(int id) {
  FindingFacts facts;
  {
    const Detector::Access state(Detector::get());
    const auto& all = state->findings.all();
    if (id < 0 || static_cast<size_t>(id) >= all.size()) {
      throw py::index_error("finding " + std::to_string(id) + ": there are " +
                            std::to_string(all.size()));
    }
    facts = finding_facts(*state, all[static_cast<size_t>(id)]);
  }
  return to_python(facts);
}

py::list findings_as_list() {
  std::vector<FindingFacts> facts;
  {
    const Detector::Access state(Detector::get());
    for (const FindingStore::Finding& finding : state->findings.all()) {
      facts.push_back(finding_facts(*state, finding));
    }
  }
  py::list result;
  for (const FindingFacts& finding : facts) result.append(to_python(finding));
  return result;
}

py::list watched_as_list() {
  std::vector<WatchedFacts> facts;
  {
    const Detector::Access state(Detector::get());
    for (const WatchLog::Entry& entry : state->watch_log.entries()) {
      WatchedFacts& item = facts.emplace_back();
      item.entry = entry;
      item.access = access_facts(*state, entry.first.access);
      for (const core::WatchedAccess::After& after : entry.first.after) {
        item.after.emplace_back(access_facts(*state, after.earlier),
                                edge_facts(*state, after.edge));
      }
    }
  }
  py::list result;
  for (const WatchedFacts& watched : facts) result.append(to_python(watched));
  return result;
}

py::dict counters_as_dict() {
  Counters counters;
  std::vector<Stream> streams;
  std::vector<std::string> names;
  size_t regions = 0;
  {
    const Detector::Access state(Detector::get());
    counters = state->counters;
    streams = state->streams.all();
    for (uint32_t i = 0; i < streams.size(); ++i) {
      names.push_back(state->streams.name(core::StreamId{i}));
    }
    regions = state->engine.counts().allocations;
  }
  py::list stream_list;
  for (size_t i = 0; i < streams.size(); ++i) {
    py::dict item;
    item["device"] = streams[i].device;
    item["handle"] = streams[i].handle;
    item["name"] = names[i];
    item["ops"] = streams[i].ops;
    stream_list.append(std::move(item));
  }
  py::dict result;
  result["ops"] = counters.ops;
  result["accesses"] = counters.accesses;
  result["collectives"] = counters.collectives;
  result["waits"] = counters.waits;
  result["records"] = counters.records;
  result["syncs"] = counters.syncs;
  result["truncated_tensors"] = counters.truncated_tensors;
  result["replays"] = counters.replays;
  result["unknown_replays"] = counters.unknown_replays;
  const RuntimeCounts runtime = runtime_counts();
  result["interposed"] = runtime.is_attached;
  result["launches"] = runtime.launches;
  result["copies"] = runtime.copies;
  result["raw_copies"] = runtime.raw_copies;
  result["untraced_records"] = runtime.untraced_records;
  result["untraced_waits"] = runtime.untraced_waits;
  result["untraced_syncs"] = runtime.untraced_syncs;
  result["unused_queries"] = runtime.unused_queries;
  result["opaque_kernels"] = runtime.opaque_kernels;
  result["ordered_by_nccl"] = counters.ordered_by_nccl;
  result["regions"] = regions;
  result["streams"] = std::move(stream_list);
  return result;
}

}  // namespace streamguard::hooks
