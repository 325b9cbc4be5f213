// The fewest waits that would order the races of a run.
#ifndef STREAMGUARD_CORE_NEEDED_WAITS_H_
#define STREAMGUARD_CORE_NEEDED_WAITS_H_

#include <cstddef>
#include <vector>

#include "core/ids.h"
#include "core/race.h"

namespace streamguard::core {

// One wait that is missing: record an event on `from` after `after_op`, and let `to` (a stream, or
// the host where `to` is kNoStream) wait for it before `before_op`.
struct NeededWait {
  StreamId from = kNoStream;  // kNoStream: a host thread; then a message, or to issue later
  StreamId to = kNoStream;
  HostThreadId thread = kNoHostThread;  // who issues `before_op`
  OpId after_op = kNoOp;                // newest op that has to be complete
  OpId before_op = kNoOp;               // oldest op that has to wait
  std::vector<std::size_t> races;       // indexes of the races that it orders
};

// For each ordered pair of lanes the smallest set of waits that orders all their races. Order that
// a wait would also give to third lanes is not used: the result is minimal pair by pair. Uses after
// free are left out, no wait repairs them. In the order of `before_op`.
// Cost: O(races * log races).
std::vector<NeededWait> needed_waits(const std::vector<Race>& races);

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_NEEDED_WAITS_H_
