#include "core/race_detector.h"

#include <algorithm>

namespace streamguard::core {
namespace {

Race::Kind kind_of(AccessKind first, AccessKind second) {
  if (first == AccessKind::kRead) return Race::Kind::kWar;
  return second == AccessKind::kRead ? Race::Kind::kRaw : Race::Kind::kWaw;
}

Race::Domain domain_of(const AccessRecord& first, const AccessRecord& second) {
  const bool both_known = first.allocation != kNoAllocation && second.allocation != kNoAllocation;
  if (both_known && first.allocation != second.allocation) return Race::Domain::kReuse;
  return first.on_host || second.on_host ? Race::Domain::kHost : Race::Domain::kDevice;
}

bool has_reads_and_writes(AccessSpan accesses) {
  bool reads = false;
  bool writes = false;
  for (const Access& access : accesses) {
    (access.kind == AccessKind::kRead ? reads : writes) = true;
  }
  return reads && writes;
}

}  // namespace

RaceDetector::RaceDetector(History history, const HappensBefore& order,
                           const std::optional<HappensBefore>& with_communicators,
                           AllocationTable& allocations)
    : order_(order),
      with_communicators_(with_communicators),
      allocations_(allocations),
      shadow_(history, &order) {}

void RaceDetector::prefetch(AccessSpan accesses) const {
  for (const Access& access : accesses) shadow_.prefetch_home(access.region.begin);
}

template <typename Visit>
void RaceDetector::visit_parts(AccessSpan accesses, Visit visit) {
  for (const Access& access : accesses) shadow_.prefetch_stray(access.region.begin);
  if (!has_reads_and_writes(accesses)) {
    for (const Access& access : accesses) visit(access);
    return;
  }
  own_writes_.set(accesses);
  for (const Access& access : accesses) {
    if (access.kind == AccessKind::kWrite) visit(access);
  }
  for (const Access& access : accesses) {
    if (access.kind == AccessKind::kWrite) continue;
    own_writes_.subtract_from(access.region.normalized(), pieces_);
    for (const Region& piece : pieces_) visit({piece, AccessKind::kRead, access.allocation});
  }
}

void RaceDetector::enter(const RunningOp& running, AccessSpan accesses) {
  visit_parts(accesses, [&](const Access& access) { enter_access(running, access); });
}

void RaceDetector::enter_kind(const RunningOp& running, AccessSpan accesses, AccessKind kind) {
  for (const Access& access : accesses) {
    if (access.kind == kind) enter_access(running, access);
  }
}

AccessRecord RaceDetector::record_of(const RunningOp& running, const Region& region,
                                     AccessKind kind, AllocationId allocation) {
  return {running.op,     running.info.label, running.info.site, running.on_host, running.stream,
          running.thread, running.lane,       running.epoch,     region,          kind,
          allocation};
}

std::vector<Race> RaceDetector::foresee(const RunningOp& planned, AccessSpan accesses) {
  std::vector<Race> unordered;
  std::vector<Race> by_nccl;
  visit_parts(accesses, [&](const Access& access) {
    const Region region = access.region.normalized();
    if (region.is_empty()) return;
    const AccessRecord record =
        record_of(planned, region, access.kind, tenant_of(access).allocation);
    found_.clear();
    shadow_.check(record, &order_.clock(planned.lane), found_);
    if (!found_.empty()) describe_found(record, unordered, by_nccl);
  });
  return unordered;
}

void RaceDetector::enter_access(const RunningOp& running, const Access& access) {
  ++access_count_;
  const Region region = access.region.normalized();
  if (region.is_empty()) return;
  const Tenant tenant = tenant_of(access);
  const AccessRecord record = record_of(running, region, access.kind, tenant.allocation);
  if (tenant.is_freed) report_use_after_free(record);

  found_.clear();
  const VectorClock& clock = order_.clock(running.lane);
  if (running.on_host && order_.is_known_to_hosts(running.lane, running.epoch)) {
    // With one host clock everything issued later is after a host access: nothing to keep.
    shadow_.check(record, &clock, found_);
  } else {
    shadow_.enter(record, &clock, found_);
    if (access.allocation == kNoAllocation) shadow_.remember_tenant(region.begin, tenant);
  }
  if (!found_.empty()) describe_found(record, races, ordered_by_nccl);
  if (!watch_log_.is_empty()) {
    watch_log_.enter(record, order_, with_communicators_ ? &*with_communicators_ : nullptr);
  }
}

Tenant RaceDetector::tenant_of(const Access& access) {
  AllocationId id = access.allocation;
  if (id == kNoAllocation) {
    const Tenant remembered = shadow_.tenant_at(access.region.begin);
    if (remembered.is_known) return remembered;
    id = allocations_.at(access.region.begin);
  }
  const Allocation* allocation = allocations_.find(id);
  return {id, allocation != nullptr && !allocation->is_live, true};
}

void RaceDetector::report_use_after_free(const AccessRecord& access) {
  const Allocation* freed = allocations_.find(access.allocation);
  if (freed == nullptr) return;
  // One op that touches a freed block twice is one finding.
  for (auto race = races.rbegin(); race != races.rend() && race->second.op == access.op; ++race) {
    if (race->kind == Race::Kind::kUaf && race->first.allocation == access.allocation) return;
  }
  Race race;
  race.kind = Race::Kind::kUaf;
  race.domain = Race::Domain::kLifetime;
  race.first = freed->freed_by;
  race.second = access;
  race.overlap = access.region.bounds();
  races.push_back(race);
}

void RaceDetector::describe_found(const AccessRecord& access, std::vector<Race>& unordered,
                                  std::vector<Race>& by_nccl) {
  const auto by_issue = [&](RecordIndex a, RecordIndex b) {
    const OpId first = shadow_.record(a).op;
    const OpId second = shadow_.record(b).op;
    return first == second ? a < b : first < second;
  };
  std::sort(found_.begin(), found_.end(), by_issue);
  found_.erase(std::unique(found_.begin(), found_.end()), found_.end());

  for (RecordIndex index : found_) {
    const AccessRecord& earlier = shadow_.record(index);
    Race race;
    race.kind = kind_of(earlier.kind, access.kind);
    race.domain = domain_of(earlier, access);
    race.first = earlier;
    race.second = access;
    race.overlap = first_overlap(earlier.region, access.region).value_or(ByteRange{});
    race.missing.needed_epoch = earlier.epoch;
    race.missing.known_epoch = order_.clock(access.lane).at(earlier.lane);
    const OrderEdge last = order_.last_edge(access.lane, earlier.lane);
    if (last.kind != OrderEdge::Kind::kNone) race.missing.last_wait = last;
    race.missing.event_after_first = order_.event_recorded_since(earlier.lane, earlier.epoch);
    // HB-09: issue order inside one communicator is how NCCL works, not what it promises.
    const bool only_by_nccl =
        with_communicators_ && with_communicators_->knows(access.lane, earlier.lane, earlier.epoch);
    (only_by_nccl ? by_nccl : unordered).push_back(race);
  }
}

}  // namespace streamguard::core
