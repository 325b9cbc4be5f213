// Schedules: which of the orders that CUDA allows one execution takes.
#ifndef STREAMGUARD_VGPU_RUNTIME_SCHEDULE_H_
#define STREAMGUARD_VGPU_RUNTIME_SCHEDULE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "stream.h"

namespace streamguard::vgpu {

// One policy at a time per process. Thread safety: called under the runtime's lock.
// Deterministic: decisions depend on stream indices and op sequence numbers only, which both count
// from the start of the schedule. So ranks that issue the same ops agree.
class SchedulePolicy {
 public:
  virtual ~SchedulePolicy() = default;
  // True when the op just issued runs at once, with everything it depends on.
  virtual bool runs_at_issue(const Stream& stream, uint64_t sequence) = 0;
  // Among ops that a host wait has forced and that are ready, the smallest rank runs first; equal
  // ranks run in issue order.
  virtual uint64_t rank(const Stream& stream, uint64_t sequence) = 0;
  // False when rank() is the same for every op: then issue order is enough.
  virtual bool has_ranks() const = 0;
  // The token that gives this policy again.
  virtual std::string token() const = 0;
};

// What a schedule may be, for messages.
constexpr const char* kScheduleForms =
    "eager, lazy, extreme:EARLY,LATE, random:SEED or pct:SEED[,DEPTH]";

// Null when `text` is none of kScheduleForms.
std::unique_ptr<SchedulePolicy> make_policy(const std::string& text);

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_SCHEDULE_H_
