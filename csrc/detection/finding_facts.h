#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "detection/detector_state.h"

namespace streamguard::detection {

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

struct FindingFacts {
  FindingStore::Finding finding;
  AccessFacts first;
  AccessFacts second;
  std::vector<Named> overlap_first;
  std::vector<Named> overlap_second;
  bool has_last_wait = false;
  EdgeFacts last_wait;
};

struct WatchedFacts {
  WatchLog::Entry entry;
  AccessFacts access;
  std::vector<std::pair<AccessFacts, EdgeFacts>> after;
};

/// Names, stream roles and labels are looked up now, so that a name given shortly after an access
/// is found. REQUIRES of both: the state is not changed meanwhile.
FindingFacts finding_facts(const DetectorState& state, const FindingStore::Finding& finding);
WatchedFacts watched_facts(const DetectorState& state, const WatchLog::Entry& entry);

}  // namespace streamguard::detection
