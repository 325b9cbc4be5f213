// Compares each access with the history of its bytes.
#ifndef STREAMGUARD_CORE_RACE_DETECTOR_H_
#define STREAMGUARD_CORE_RACE_DETECTOR_H_

#include <optional>
#include <vector>

#include "core/access.h"
#include "core/allocation_table.h"
#include "core/engine.h"
#include "core/happens_before.h"
#include "core/own_writes.h"
#include "core/race.h"
#include "core/shadow_memory.h"
#include "core/watch_log.h"

namespace streamguard::core {

// One op that is being entered; its clock already is that of its lane.
struct RunningOp {
  OpId op;
  OpInfo info;
  LaneId lane;
  Epoch epoch = 0;
  bool on_host = false;
  StreamId stream = kNoStream;
  HostThreadId thread = kNoHostThread;
};

// Yields the races of each op against everything before it.
//
// Thread safety: none. Refers to its arguments for its whole life.
// Cost: enter and foresee: the accesses times what ShadowMemory::enter says.
class RaceDetector {
 public:
  RaceDetector(History history, const HappensBefore& order,
               const std::optional<HappensBefore>& with_communicators,
               AllocationTable& allocations);

  // Starts to load what `enter` will need. Worth calling before the op's order is worked out.
  void prefetch(AccessSpan accesses) const;
  void enter(const RunningOp& running, AccessSpan accesses);
  // The parts of an op whose reads and writes run at different places: `accesses` is the whole op.
  void enter_kind(const RunningOp& running, AccessSpan accesses, AccessKind kind);

  // The races that `enter` would report, in the same order; nothing is kept.
  std::vector<Race> foresee(const RunningOp& planned, AccessSpan accesses);

  std::vector<Race> races;
  std::vector<Race> ordered_by_nccl;
  ShadowMemory& shadow() { return shadow_; }
  const ShadowMemory& shadow() const { return shadow_; }
  WatchLog& watch_log() { return watch_log_; }
  std::uint64_t access_count() const { return access_count_; }

 private:
  // Calls visit(access) for what one op really touches: bytes that it reads and writes once, as
  // written.
  template <typename Visit>
  void visit_parts(AccessSpan accesses, Visit visit);
  static AccessRecord record_of(const RunningOp& running, const Region& region, AccessKind kind,
                                AllocationId allocation);
  void enter_access(const RunningOp& running, const Access& access);
  Tenant tenant_of(const Access& access);
  void report_use_after_free(const AccessRecord& access);
  // The races of `access` with what stands in `found_`: to `unordered`, or to `by_nccl`.
  void describe_found(const AccessRecord& access, std::vector<Race>& unordered,
                      std::vector<Race>& by_nccl);

  const HappensBefore& order_;
  const std::optional<HappensBefore>& with_communicators_;
  AllocationTable& allocations_;
  ShadowMemory shadow_;
  WatchLog watch_log_;
  OwnWrites own_writes_;
  std::vector<Region> pieces_;
  std::vector<RecordIndex> found_;
  std::uint64_t access_count_ = 0;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RACE_DETECTOR_H_
