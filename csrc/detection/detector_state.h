#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/name_table.h"
#include "detection/asynchronous_works.h"
#include "detection/early_frees.h"
#include "detection/findings.h"
#include "detection/labels.h"
#include "detection/module_log.h"
#include "detection/streams.h"
#include "detection/watch_log.h"
#include "trace/recorded_engine.h"

namespace streamguard::detection {

/// What the hooks saw since the process started.
struct Counters {
  uint64_t ops = 0;
  uint64_t accesses = 0;
  uint64_t collectives = 0;
  uint64_t waits = 0;
  uint64_t records = 0;
  uint64_t syncs = 0;
  uint64_t truncated_tensors = 0;
  uint64_t replays = 0;          // of CUDA graphs
  uint64_t unknown_replays = 0;  // of graphs captured while nobody watched, or inside another one
  uint64_t ordered_by_nccl = 0;
  uint64_t waits_inserted = 0;
  uint64_t waits_not_inserted = 0;
};

/// Everything the detector's mutex guards: the engine, and what its numbers stand for. A replayed
/// trace has one of its own, which knows no torch either.
///
/// Thread safety: none. Invariant: what changes a finding or its names is a method here or a call
/// of `engine` and `streams`, since a trace holds those and nothing else.
struct DetectorState {
  explicit DetectorState(core::EngineOptions options = {}) : engine(options) {}

  trace::RecordedEngine engine;
  StreamTable streams{engine};
  LabelTable labels;
  core::NameTable names;
  FindingStore findings;
  WatchLog watch_log;
  AsynchronousWorks works;
  EarlyFrees early_frees;
  std::unordered_set<uint64_t> graph_blocks;  // addresses of blocks that captures allocated
  Counters counters;
  int64_t step = -1;
  ModuleLog modules;
  uint64_t places_told_apart = 0;  // not 0: findings are kept by place, in places of this number
  core::LabelId free_label = labels.intern_op("free");

  /// Names bytes of the block that is there now.
  void name_bytes(core::ByteRange bytes, const std::string& name, core::OpId since);
  void forget_names(core::ByteRange bytes);
  void watch(core::ByteRange bytes, const std::string& name);
  void end_watches(core::ByteRange bytes);
  void set_step(int64_t new_step);
  /// Puts a text into the trace that belongs between the calls around it; it has no other effect.
  void note(const std::string& text);
  std::vector<int> take_unannounced();

  /// Files new races and watched accesses. Returns: whether there is a new finding.
  bool file_results() {
    return file_results([](const core::Race&) {});
  }
  /// As above; `on_race` is told of every race first, also of those that only repeat a finding.
  template <typename OnRace>
  bool file_results(OnRace on_race) {
    bool has_news = false;
    if (engine.has_races()) {
      const size_t before = findings.all().size();
      for (const core::Race& race : engine.take_races()) {
        on_race(race);
        findings.add(race, step, places_told_apart == 0 ? FindingStore::kAnyPlace : place_of(race));
      }
      has_news = findings.all().size() != before;
    }
    // Pairs that only NCCL's own order keeps apart are no findings, but must not pile up.
    counters.ordered_by_nccl += engine.take_ordered_by_nccl().size();
    if (!watch_log.is_empty()) file_watched();
    return has_news;
  }

 private:
  void file_watched();
  /// Which bytes, what they are called now, and in which modules the ops were, as a hash.
  uint64_t place_of(const core::Race& race) const;
};

}  // namespace streamguard::detection
