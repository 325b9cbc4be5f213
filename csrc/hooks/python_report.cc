#include "hooks/python_report.h"

#include <pybind11/stl.h>

#include <string>
#include <utility>
#include <vector>

#include "detection/finding_dicts.h"
#include "hooks/detector.h"
#include "hooks/runtime_calls.h"
#include "hooks/sampling.h"

namespace py = pybind11;

namespace streamguard::hooks {
namespace {

py::list frames_of(StackId stack) {
  py::list result;
  for (const SourceLine& line : Detector::get().stacks().resolve(stack)) {
    result.append(py::make_tuple(line.file, line.line, line.function));
  }
  return result;
}

}  // namespace

py::dict finding_as_dict(int id) {
  detection::FindingFacts facts;
  {
    const Detector::Access state(Detector::get());
    const auto& all = state->findings.all();
    if (id < 0 || static_cast<size_t>(id) >= all.size()) {
      throw py::index_error("finding " + std::to_string(id) + ": there are " +
                            std::to_string(all.size()));
    }
    facts = detection::finding_facts(*state, all[static_cast<size_t>(id)]);
  }
  return detection::finding_dict(facts, &frames_of);
}

py::list findings_as_list() {
  std::vector<detection::FindingFacts> facts;
  {
    const Detector::Access state(Detector::get());
    for (const detection::FindingStore::Finding& finding : state->findings.all()) {
      facts.push_back(detection::finding_facts(*state, finding));
    }
  }
  py::list result;
  for (const detection::FindingFacts& finding : facts)
    result.append(detection::finding_dict(finding, &frames_of));
  return result;
}

py::list early_frees_as_list() {
  struct Facts {
    std::string op, stream, owner;
    bool is_write;
    core::SiteId site;
    int64_t step;
    uint64_t count;
  };
  std::vector<Facts> all;
  {
    const Detector::Access state(Detector::get());
    for (const detection::EarlyFrees::EarlyFree& freed : state->early_frees.all()) {
      all.push_back({state->labels.get(freed.access.label).op,
                     state->streams.name(freed.access.stream), state->streams.name(freed.owner),
                     freed.access.kind == core::AccessKind::kWrite, freed.access.site, freed.step,
                     freed.count});
    }
  }
  py::list result;
  for (const Facts& facts : all) {
    py::dict item;
    item["op"] = facts.op;
    item["access"] = facts.is_write ? "write" : "read";
    item["stream"] = facts.stream;
    item["owner"] = facts.owner;
    // An op of autograd's own thread has no frames but those of its forward op.
    const auto own = static_cast<StackId>(facts.site.value);
    item["frames"] = frames_of(own != 0 ? own : static_cast<StackId>(facts.site.value >> 32));
    item["step"] = facts.step < 0 ? py::object(py::none()) : py::object(py::int_(facts.step));
    item["count"] = facts.count;
    result.append(std::move(item));
  }
  return result;
}

py::list watched_as_list() {
  std::vector<detection::WatchedFacts> facts;
  {
    const Detector::Access state(Detector::get());
    for (const detection::WatchLog::Entry& entry : state->watch_log.entries()) {
      facts.push_back(detection::watched_facts(*state, entry));
    }
  }
  py::list result;
  for (const detection::WatchedFacts& watched : facts)
    result.append(detection::watched_dict(watched, &frames_of));
  return result;
}

py::dict counters_as_dict() {
  detection::Counters counters;
  std::vector<detection::Stream> streams;
  std::vector<std::string> names;
  size_t regions = 0;
  uint64_t left_out = 0;
  {
    const Detector::Access state(Detector::get());
    counters = state->counters;
    streams = state->streams.all();
    for (uint32_t i = 0; i < streams.size(); ++i) {
      names.push_back(state->streams.name(core::StreamId{i}));
    }
    left_out = state->findings.left_out();
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
  result["races_left_out"] = left_out;
  result["waits_inserted"] = counters.waits_inserted;
  result["waits_not_inserted"] = counters.waits_not_inserted;
  result["ops_of_other_steps"] = Sampling::get().ops_of_other_steps();
  result["ops_on_other_streams"] = Sampling::get().ops_on_other_streams();
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
