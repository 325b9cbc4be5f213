#include "hooks/confirmer.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "hooks/event_pool.h"
#include "hooks/own_calls.h"
#include "hooks/relaxed_capture.h"

namespace streamguard::hooks {
namespace {

// Of the occurrences of the first op elsewhere than where the pair was seen, one in so many is
// delayed all the same: the allocator may have moved the bytes.
constexpr uint64_t kPassOver = 4;
// A try that meets no second op in so many ops is given up.
constexpr uint64_t kOpsOfATry = 10'000;
constexpr std::chrono::microseconds kLongestDelay{200'000};

EventPool& pool() {
  static EventPool& events = *std::make_unique<EventPool>().release();
  return events;
}

cudaStream_t stream_of_handle(uint64_t handle) { return reinterpret_cast<cudaStream_t>(handle); }

bool is_over(void* event) {
  if (event == nullptr) return true;
  const bool is_done = cudaEventQuery(static_cast<cudaEvent_t>(event)) != cudaErrorNotReady;
  if (!is_done) (void)cudaGetLastError();
  return is_done;
}

void* record(int device, uint64_t stream) {
  pool().prepare(device);
  const cudaEvent_t event = pool().take(device);
  if (event != nullptr) cudaEventRecord(event, stream_of_handle(stream));
  return event;
}

void give_back(int device, void*& event) {
  if (event != nullptr) pool().give_back(device, static_cast<cudaEvent_t>(event));
  event = nullptr;
}

bool touches(core::AccessSpan accesses, core::ByteRange bytes) {
  return std::any_of(accesses.begin(), accesses.end(), [&](const core::Access& access) {
    return access.region.bounds().overlaps(bytes);
  });
}

}  // namespace

Confirmer& Confirmer::get() {
  static Confirmer& confirmer = *std::unique_ptr<Confirmer>(new Confirmer()).release();
  return confirmer;
}

void Confirmer::start(const std::string& probes) {
  const std::lock_guard<std::mutex> lock(mutex_);
  load_probes(probes);
  targets_.clear();
  findings_known_ = Detector::Access(Detector::get())->findings.all().size();
  is_active_.store(true, std::memory_order_relaxed);
}

void Confirmer::stop() {
  if (!is_active_.exchange(false)) return;
  Ended ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const OwnCalls own_calls;
    ended = give_up();
  }
  ended.end();
}

void Confirmer::Ended::end() const {
  if (!is_held) return;
  const OwnCalls own_calls;
  const RawDeviceGuard guard(delayed.device);
  end_delay(delayed, has_first ? &first : nullptr);
}

void Confirmer::before_launch(const ThreadState& thread, core::StreamId stream,
                              const std::vector<core::Access>& accesses, core::OpInfo info) {
  before(thread, {info.label, info.site, stream}, accesses, false,
         [&](trace::RecordedEngine& engine) {
           return engine.foresee_launch(thread.id, stream, accesses, info);
         });
}

void Confirmer::before_collective(const ThreadState& thread, core::StreamId stream,
                                  core::CommunicatorId communicator,
                                  const std::vector<core::Access>& accesses, core::OpInfo info) {
  before(thread, {info.label, info.site, stream}, accesses, false,
         [&](trace::RecordedEngine& engine) {
           return engine.foresee_collective(thread.id, stream, communicator, accesses, info);
         });
}

void Confirmer::before_host_access(const ThreadState& thread,
                                   const std::vector<core::Access>& accesses, core::OpInfo info) {
  before(thread, {info.label, info.site, core::kNoStream}, accesses, false,
         [&](trace::RecordedEngine& engine) {
           return engine.foresee_host_access(thread.id, accesses, info);
         });
}

void Confirmer::before_new_block(const ThreadState& thread, core::StreamId stream,
                                 core::AllocationId block, core::ByteRange bytes,
                                 core::OpInfo info) {
  const core::Access written{core::Region::of_range(bytes), core::AccessKind::kWrite, block};
  before(thread, {info.label, info.site, stream}, {&written, 1}, true,
         [&](trace::RecordedEngine& engine) {
           return engine.foresee_launch(thread.id, stream, {&written, 1}, info);
         });
}

template <typename Foresee>
void Confirmer::before(const ThreadState& thread, const Side& side, core::AccessSpan accesses,
                       bool is_new_block, Foresee foresee) {
  Ended ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const OwnCalls own_calls;
    const RelaxedCapture relaxed;
    learn_targets();
    if (targets_.empty()) return;
    if (phase_ == Phase::kDelayed || phase_ == Phase::kMeeting) {
      // An op that asks again, or a block that it takes; else that op failed.
      if (thread_ != thread.id || issuing_ == side || is_new_block) return;
      ended = give_up();
    }
    if (phase_ == Phase::kArmed) {
      if (meets(thread, side, foresee)) return;
      if (++ops_since_ > kOpsOfATry && !is_new_block) ended = give_up();
    }
    if (!is_new_block) arm(thread, side, accesses, ended);
  }
  ended.end();
}

template <typename Foresee>
bool Confirmer::meets(const ThreadState& thread, const Side& side, Foresee foresee) {
  const Target& target = targets_[target_];
  if (!(target.second == side)) return false;
  std::vector<core::Race> races;
  {
    const Detector::Access detector(Detector::get());
    races = foresee(detector->engine);
    if (side.stream != core::kNoStream) {
      const detection::Stream& info = detector->streams.get(side.stream);
      second_device_ = info.device;
      second_handle_ = info.handle;
    }
  }
  const auto race = std::find_if(races.begin(), races.end(), [&](const core::Race& each) {
    return each.first.op == first_op_ && each.kind == target.kind;
  });
  if (race == races.end()) return false;
  if (is_over(first_ended_)) {
    // Too late: nothing was tried. The next delay is longer.
    targets_[target_].delay = std::min(2 * target.delay, kLongestDelay);
    return false;
  }
  try_.bytes = try_.ended.covered(race->overlap);
  if (side.stream == core::kNoStream) {
    try_.met.take_on_host(try_.bytes);
  } else {
    const RawDeviceGuard guard(second_device_);
    try_.met.take(stream_of_handle(second_handle_), try_.bytes);
  }
  try_.bytes = try_.met.covered(try_.bytes);
  issuing_ = side;
  thread_ = thread.id;
  phase_ = Phase::kMeeting;
  return true;
}

void Confirmer::learn_targets() {
  const Detector::Access detector(Detector::get());
  detection::FindingStore& findings = detector->findings;
  for (; findings_known_ < findings.all().size(); ++findings_known_) {
    const auto& finding = findings.all()[findings_known_];
    const core::Race& race = finding.race;
    const bool is_tried = !race.first.on_host && race.kind != core::Race::Kind::kUaf;
    if (!is_tried) continue;
    findings.begin_tries(finding.id);
    const core::StreamId second = race.second.on_host ? core::kNoStream : race.second.stream;
    targets_.push_back({finding.id,
                        {race.first.label, race.first.site, race.first.stream},
                        {race.second.label, race.second.site, second},
                        race.kind,
                        race.overlap});
  }
}

void Confirmer::arm(const ThreadState& thread, const Side& side, core::AccessSpan accesses,
                    Ended& ended) {
  const bool is_first = std::any_of(targets_.begin(), targets_.end(), [&](const Target& target) {
    return !target.is_over && target.first == side;
  });
  if (!is_first) return;
  // Only now, since a query may make the virtual GPU run work.
  if (phase_ == Phase::kArmed && is_over(first_ended_)) ended = give_up();
  if (phase_ == Phase::kEnding) finish_if_over();
  if (phase_ != Phase::kIdle || !try_.prepare()) return;
  Target* chosen = nullptr;
  for (Target& target : targets_) {
    if (target.is_over || !(target.first == side)) continue;
    if (!touches(accesses, target.seen_at) && ++target.passed_over % kPassOver != 0) continue;
    if (chosen == nullptr || target.tries < chosen->tries) chosen = &target;
  }
  if (chosen == nullptr) return;
  {
    const Detector::Access detector(Detector::get());
    if (detector->engine.is_capturing(side.stream)) return;
    const detection::Stream& info = detector->streams.get(side.stream);
    delayed_ = {info.device, info.handle, chosen->delay};
  }
  // The last delay of this stream goes on as this one.
  const bool is_same =
      ended.delayed.device == delayed_.device && ended.delayed.handle == delayed_.handle;
  if (is_same) ended.is_held = false;
  target_ = static_cast<size_t>(chosen - targets_.data());
  const RawDeviceGuard guard(delayed_.device);
  const cudaStream_t stream = stream_of_handle(delayed_.handle);
  try_.clear();
  try_.kind = chosen->kind;
  const bool is_overwritten = chosen->kind != core::Race::Kind::kRaw;
  const auto kind =
      chosen->kind == core::Race::Kind::kWar ? core::AccessKind::kRead : core::AccessKind::kWrite;
  if (chosen->kind == core::Race::Kind::kWaw) {
    try_.issued.take(stream, accesses, kind, chosen->seen_at);
  }
  if (!begin_delay(delayed_)) return;
  if (is_overwritten) try_.started.take(stream, accesses, kind, chosen->seen_at);
  issuing_ = side;
  thread_ = thread.id;
  ops_since_ = 0;
  phase_ = Phase::kDelayed;
}

void Confirmer::after_issue(const ThreadState& thread, core::StreamId stream,
                            const std::vector<core::Access>& accesses, core::OpId op) {
  Ended ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const bool is_issuing = phase_ == Phase::kDelayed || phase_ == Phase::kMeeting;
    if (!is_issuing || thread_ != thread.id || issuing_.stream != stream) return;
    const OwnCalls own_calls;
    const RelaxedCapture relaxed;
    const Target& target = targets_[target_];
    if (phase_ == Phase::kDelayed) {
      const RawDeviceGuard guard(delayed_.device);
      const auto kind = target.kind == core::Race::Kind::kWar ? core::AccessKind::kRead
                                                              : core::AccessKind::kWrite;
      try_.ended.take(stream_of_handle(delayed_.handle), accesses, kind, target.seen_at);
      first_ended_ = record(delayed_.device, delayed_.handle);
      first_op_ = op;
      phase_ = Phase::kArmed;
      return;
    }
    const bool both_write = target.kind == core::Race::Kind::kWaw;
    if (stream == core::kNoStream) {
      if (both_write) try_.left.take_on_host(try_.bytes);
    } else {
      const RawDeviceGuard guard(second_device_);
      if (both_write) try_.left.take(stream_of_handle(second_handle_), try_.bytes);
      second_ended_ = record(second_device_, second_handle_);
    }
    phase_ = Phase::kEnding;
    const bool is_on_one_device = stream != core::kNoStream && second_device_ == delayed_.device;
    ended = {true, delayed_, is_on_one_device, second_handle_};
  }
  ended.end();
}

void Confirmer::collect() {
  if (!is_active()) return;
  Ended ended;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    const OwnCalls own_calls;
    const RelaxedCapture relaxed;
    learn_targets();
    if (phase_ == Phase::kArmed && is_over(first_ended_)) ended = give_up();
    if (phase_ == Phase::kEnding) finish_if_over();
  }
  ended.end();
}

void Confirmer::finish_if_over() {
  if (!is_over(first_ended_) || !is_over(second_ended_)) return;
  Target& target = targets_[target_];
  if (!try_.bytes.is_empty()) {
    const uint64_t changed = try_.changed_bytes();
    ++target.tries;
    target.is_over = changed > 0 || target.tries == kTries;
    const Detector::Access detector(Detector::get());
    detector->findings.add_try(target.finding, try_.bytes.size_bytes(), changed);
  }
  give_back(delayed_.device, first_ended_);
  give_back(second_device_, second_ended_);
  phase_ = Phase::kIdle;
}

// Its copies may still be to run, into memory that the next try needs.
Confirmer::Ended Confirmer::give_up() {
  if (phase_ == Phase::kIdle || phase_ == Phase::kEnding) return {};
  if (phase_ == Phase::kDelayed) first_ended_ = record(delayed_.device, delayed_.handle);
  try_.bytes = {};
  phase_ = Phase::kEnding;
  return {true, delayed_, false, 0};
}

}  // namespace streamguard::hooks
