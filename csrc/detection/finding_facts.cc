#include "detection/finding_facts.h"

namespace streamguard::detection {
namespace {

std::vector<Named> names_of(const DetectorState& state, const core::AccessRecord& record,
                            core::ByteRange bytes) {
  std::vector<Named> names;
  for (const core::NameTable::Named& found :
       state.names.lookup(bytes, record.op, record.allocation)) {
    names.push_back(
        {found.text, found.range.begin - found.whole.begin, found.range.end - found.whole.begin});
  }
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

}  // namespace

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

WatchedFacts watched_facts(const DetectorState& state, const WatchLog::Entry& entry) {
  WatchedFacts facts{entry, access_facts(state, entry.first.access), {}};
  for (const core::WatchedAccess::After& after : entry.first.after) {
    facts.after.emplace_back(access_facts(state, after.earlier), edge_facts(state, after.edge));
  }
  return facts;
}

}  // namespace streamguard::detection
