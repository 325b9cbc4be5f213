// Schedules of priorities that change at a few random places.
#ifndef STREAMGUARD_VGPU_RUNTIME_PCT_POLICY_H_
#define STREAMGUARD_VGPU_RUNTIME_PCT_POLICY_H_

#include "schedule.h"

namespace streamguard::vgpu {

// pct:SEED or pct:SEED,DEPTH (3 without it); null when `text` is neither.
//
// The host and every stream have a random priority. A stream above the host runs its ops at issue,
// the others run what a host wait forces, highest priority first. At DEPTH - 1 random ops the
// issuing stream, or the host, falls below all others. A race that shows only when DEPTH orderings
// hold at once is found with useful probability by each seed.
//
// Source: Burckhardt, Kothari, Musuvathi, Nagarakatte: A randomized scheduler with probabilistic
// guarantees of finding bugs, 2010, section 2. Unlike there the number of steps is not known
// beforehand: the places of the changes are drawn so that each power of two of steps is as likely.
std::unique_ptr<SchedulePolicy> make_pct_policy(const std::string& text);

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_PCT_POLICY_H_
