// Findings of the engine, as data.
#ifndef STREAMGUARD_CORE_RACE_H_
#define STREAMGUARD_CORE_RACE_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "core/access.h"
#include "core/ids.h"
#include "core/region.h"

namespace streamguard::core {

// One access with everything a report needs.
struct AccessRecord {
  OpId op;
  LabelId label;
  SiteId site;
  bool on_host = false;
  StreamId stream = kNoStream;          // where it ran; for a graph node, where the graph ran
  HostThreadId thread = kNoHostThread;  // who issued it, also for device accesses
  LaneId lane;                          // whose epochs `epoch` counts
  Epoch epoch = 0;
  Region region;
  AccessKind kind = AccessKind::kRead;
  AllocationId allocation = kNoAllocation;
};

// How one lane came to be ordered after another.
struct OrderEdge {
  enum class Kind : std::uint8_t {
    kNone,          // nothing orders the pair
    kStreamOrder,   // HB-01 same stream, or a later launch of the same graph (HB-08)
    kHostIssue,     // HB-02 issued after the host access
    kEventWait,     // HB-03 record, then cudaStreamWaitEvent
    kHostWait,      // HB-04 the host waited for it before it issued this
    kLegacyFence,   // HB-05 legacy default stream
    kMessage,       // HB-06 post, then take
    kAllocator,     // HB-07 the allocator waited for record_stream's event
    kGraph,         // HB-08 fork, join or end of a graph
    kCommunicator,  // HB-09 only the communicator's issue order: not a guarantee
  };

  Kind kind = Kind::kNone;
  EventId event;              // of kEventWait and of an event-based kHostWait, else 0
  StreamId from = kNoStream;  // stream that was waited for; kNoStream: a host thread
  OpId after_op = kNoOp;      // newest op of `from` that the edge covers
  OpId before_op = kNoOp;     // ops of the waiting lane with at least this id come after the edge
};

// Why the second access of a race is not ordered after the first.
struct MissingOrder {
  Epoch needed_epoch = 0;  // of the first access, on its lane
  Epoch known_epoch = 0;   // what the second access's lane knew of that lane when it was issued
  std::optional<OrderEdge> last_wait;  // by which the second's lane last learned of the first's
  std::optional<EventId> event_after_first;  // newest event recorded on first's stream after it
};

struct Race {
  enum class Kind : std::uint8_t { kRaw, kWar, kWaw, kUaf };
  enum class Domain : std::uint8_t { kDevice, kHost, kReuse, kLifetime };

  Kind kind = Kind::kRaw;
  Domain domain = Domain::kDevice;
  AccessRecord first;   // of kUaf: the free (on_host, no region but the block's)
  AccessRecord second;  // issued later
  ByteRange overlap;    // first run of bytes both touch
  MissingOrder missing;
};

// One access to watched bytes, and what orders it after each earlier conflicting access.
struct WatchedAccess {
  struct After {
    AccessRecord earlier;
    OrderEdge edge;
  };

  AccessRecord access;
  std::vector<After> after;  // newest per lane and kind that conflicts
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_RACE_H_
