#include "detection/detector_state.h"

namespace streamguard::detection {
namespace {

using trace::Row;
using trace::Verb;

Row row_of(Verb verb, core::ByteRange bytes, uint64_t id = 0) {
  Row row;
  row.verb = verb;
  row.begin = bytes.begin;
  row.end = bytes.end;
  row.id = id;
  return row;
}

}  // namespace

void DetectorState::name_bytes(core::ByteRange bytes, const std::string& name, core::OpId since) {
  names.add(bytes, name, since, engine.allocation_at(bytes.begin));
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add_text(row_of(Verb::kNameBytes, bytes, since.value), name);
  }
}

void DetectorState::forget_names(core::ByteRange bytes) {
  names.forget(bytes);
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add(row_of(Verb::kForgetNames, bytes));
  }
}

void DetectorState::watch(core::ByteRange bytes, const std::string& name) {
  watch_log.watch(bytes, name);
  engine.watch(bytes);
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add_text(row_of(Verb::kWatch, bytes), name);
  }
}

void DetectorState::end_watches(core::ByteRange bytes) {
  const std::vector<core::ByteRange> all_ended = watch_log.end_within(bytes);
  if (all_ended.empty()) return;
  for (const core::ByteRange& ended : all_ended) engine.unwatch(ended);
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add(row_of(Verb::kEndWatches, bytes));
  }
}

void DetectorState::set_step(int64_t new_step) {
  step = new_step;
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add(row_of(Verb::kStep, {}, static_cast<uint64_t>(new_step)));
  }
}

void DetectorState::note(const std::string& text) {
  if (trace::Recorder* recorder = engine.recorder()) {
    recorder->add_text(row_of(Verb::kNote, {}), text);
  }
}

std::vector<int> DetectorState::take_unannounced() {
  if (trace::Recorder* recorder = engine.recorder()) recorder->add(row_of(Verb::kAnnounce, {}));
  return findings.take_unannounced();
}

void DetectorState::file_watched() {
  for (const core::WatchedAccess& access : engine.take_watched()) watch_log.add(access, step);
}

uint64_t DetectorState::place_of(const core::Race& race) const {
  std::string text = std::to_string(places_told_apart) + ' ' + std::to_string(race.overlap.begin) +
                     ' ' + std::to_string(race.overlap.end);
  for (const core::AccessRecord* access : {&race.first, &race.second}) {
    text += ' ' + std::to_string(modules.at(access->thread, access->op));
    for (const auto& named : names.lookup(race.overlap, access->op, access->allocation)) {
      text += ' ' + named.text;
    }
  }
  const uint64_t hash = std::hash<std::string>{}(text);
  return hash == FindingStore::kAnyPlace ? 1 : hash;
}

}  // namespace streamguard::detection
