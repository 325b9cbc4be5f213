// The happens-before engine.
#ifndef STREAMGUARD_CORE_ENGINE_H_
#define STREAMGUARD_CORE_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/access.h"
#include "core/ids.h"
#include "core/race.h"
#include "core/region.h"

namespace streamguard::core {

enum class StreamKind : std::uint8_t { kLegacy, kBlocking, kNonBlocking };
enum class MemoryKind : std::uint8_t { kDevice, kPinned, kPageable };
enum class CopyMode : std::uint8_t { kAsync, kSync };

// kBounded keeps per byte at most the newest read and the newest write of each lane: for running
// programs. kFull keeps every access that may still race: for litmus and tests.
enum class History : std::uint8_t { kBounded, kFull };

struct EngineOptions {
  History history = History::kBounded;
  // One clock for all host threads: hand-overs between threads are not seen in running programs,
  // so host waits and host accesses take effect in observed order. Otherwise a clock per thread.
  bool one_host_clock = true;
};

enum class WaitOutcome : std::uint8_t {
  kOrdered,         // the waiter is after the newest record
  kNeverRecorded,   // HB-03: a no-op
  kForked,          // the waiting stream is part of the capture now
  kCrossesCapture,  // CUDA refuses: recorded in a capture and waited outside of it, or vice versa
};

// Sizes, for benchmarks and for tests that assert what is pruned.
struct EngineCounts {
  std::uint64_t ops = 0;
  std::uint64_t accesses = 0;
  std::size_t cells = 0;        // shadow memory: runs of bytes with their own history
  std::size_t entries = 0;      // shadow memory: accesses kept, over all cells
  std::size_t allocations = 0;  // live or remembered because they were freed
  std::size_t snapshots = 0;    // clocks held for events, messages, allocator, communicators
  std::size_t lanes = 0;
};

// What one launch of a graph runs.
struct GraphSize {
  std::size_t ops = 0;
  std::size_t accesses = 0;
};

// Keeps who is ordered after whom, and yields every pair of conflicting accesses without order.
// Rules: docs/happens_before.md (HB-01 to HB-09).
//
// Thread safety: none; the caller serialises all calls. Calls arrive in the order in which the
// host issued them.
// Invariants:
//   1. Op ids and allocation ids grow and are never reused.
//   2. A race is reported in the call that issues its second access, never later.
//   3. An access that every host thread knows to be complete is never part of a race again.
//   4. While a stream captures, its calls are stored in the graph and nothing runs; they return
//      kNoOp. They run, with fresh op ids, at each launch_graph.
// Cost: launch with two accesses of known ranges below 0.5 us, no heap allocation in steady state,
//   independent of bytes. Waits and records O(lanes). A graph launch: the sum of its nodes.
class Engine {
 public:
  explicit Engine(EngineOptions options = {});
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  // Streams and threads --------------------------------------------------------------------------
  // The legacy stream of a device is one: a second kLegacy on it yields the same id.
  StreamId add_stream(DeviceId device, StreamKind kind);
  // With a clock per thread, a thread added later starts with what every thread already knew.
  HostThreadId add_host_thread();

  // Memory ---------------------------------------------------------------------------------------
  // New block. The thread waits for the events left by record_stream on freed blocks whose bytes it
  // takes over (HB-07). Blocks still live in `range` count as gone. `owner` may be kNoStream.
  AllocationId allocate(HostThreadId thread, ByteRange range, MemoryKind kind, StreamId owner);
  // Newest block, live or freed, at that byte; kNoAllocation for unknown memory.
  AllocationId allocation_at(Address address) const;
  bool is_live(AllocationId allocation) const;
  // The allocator is told that `stream` uses the block: `free` leaves an event on it.
  void record_stream(AllocationId allocation, StreamId stream);
  // Returns the block to a caching allocator: orders nothing. `info` names it in use-after-free.
  OpId free(HostThreadId thread, AllocationId allocation, OpInfo info);
  // Like cudaFree: the thread waits for the owner's device, then the block is freed.
  OpId free_synchronously(HostThreadId thread, AllocationId allocation, OpInfo info);
  // Earlier accesses to these bytes are complete by means the engine does not see, and earlier
  // blocks there are forgotten (deferred allocator free, new pinned storage, unmapped segment).
  void forget(ByteRange range);

  // Accesses -------------------------------------------------------------------------------------
  // Kernel on `stream`. Bytes that one op both reads and writes count as written.
  OpId launch(HostThreadId thread, StreamId stream, AccessSpan accesses, OpInfo info);
  // As launch; collectives of one communicator keep issue order whatever their streams (HB-09).
  OpId collective(HostThreadId thread, StreamId stream, CommunicatorId communicator,
                  AccessSpan accesses, OpInfo info);
  // CPU, NIC or remap access by the issuing thread.
  OpId host_access(HostThreadId thread, AccessSpan accesses, OpInfo info);
  // cudaMemcpy*: writes are the destination, reads the source; pageable and pinned rules follow the
  // memory kind of the first of each (HB-10, HB-11). Unknown memory counts as device memory.
  OpId copy(HostThreadId thread, StreamId stream, AccessSpan accesses, CopyMode mode, OpInfo info);
  // cudaMemset*: kSync waits on the host only when the target is host memory (HB-12).
  OpId memset(HostThreadId thread, StreamId stream, AccessSpan accesses, CopyMode mode,
              OpInfo info);

  // Foresight ------------------------------------------------------------------------------------
  // The races that the op would reveal if it were issued now, for a caller that puts the missing
  // waits in before it starts. Nothing is issued; the stream learns what its next op would know
  // anyway (HB-02, HB-05). Uses after free are left out: no wait repairs them.
  // Cost: O(lanes) where the stream knows all work, else as the op itself.
  std::vector<Race> foresee_launch(HostThreadId thread, StreamId stream, AccessSpan accesses,
                                   OpInfo info);
  std::vector<Race> foresee_collective(HostThreadId thread, StreamId stream,
                                       CommunicatorId communicator, AccessSpan accesses,
                                       OpInfo info);
  // Of a graph's nodes only races with what was issued before the launch: no wait repairs others.
  std::vector<Race> foresee_graph(HostThreadId thread, GraphId graph, StreamId stream);
  std::vector<Race> foresee_host_access(HostThreadId thread, AccessSpan accesses, OpInfo info);

  // Order ----------------------------------------------------------------------------------------
  // Marks all work issued to `stream` so far; replaces the event's earlier record for later waits.
  void record_event(HostThreadId thread, EventId event, StreamId stream);
  // Later work of `stream` runs after the newest record issued before this call.
  WaitOutcome wait_event(HostThreadId thread, StreamId stream, EventId event);
  void sync_stream(HostThreadId thread, StreamId stream);
  WaitOutcome sync_event(HostThreadId thread, EventId event);
  void sync_device(HostThreadId thread, DeviceId device);
  // A query said "done": the same order as waiting. "Not ready" orders nothing: do not call.
  WaitOutcome event_completed(HostThreadId thread, EventId event);
  void stream_completed(HostThreadId thread, StreamId stream);
  void destroy_event(EventId event);
  // take: after the newest post of that message; a message nobody posted orders nothing.
  void post(HostThreadId thread, MessageId message);
  void take(HostThreadId thread, MessageId message);

  // Graphs ---------------------------------------------------------------------------------------
  // From now on `origin` captures. A stream that waits for an event of the capture joins it.
  // REQUIRES: !is_capturing(origin).
  void begin_capture(StreamId origin);
  // Ends the capture that `origin` began. Nothing when a forked stream was not joined; then the
  // capture is dropped, as CUDA does.
  std::optional<GraphId> end_capture(StreamId origin);
  bool is_capturing(StreamId stream) const;
  // Runs the nodes as one op of `stream`, after earlier launches of the same graph (HB-08).
  // REQUIRES: !is_capturing(stream).
  OpId launch_graph(HostThreadId thread, GraphId graph, StreamId stream);
  void destroy_graph(GraphId graph);
  // What one launch runs; zero for a destroyed graph.
  GraphSize size_of(GraphId graph) const;

  // Results --------------------------------------------------------------------------------------
  OpId current_op() const;  // newest id issued
  bool has_races() const;
  std::vector<Race> take_races();
  // Conflicting pairs that only HB-09 orders: no races, listed as "ordered by NCCL".
  std::vector<Race> take_ordered_by_nccl();
  void watch(ByteRange range);
  void unwatch(ByteRange range);
  std::vector<WatchedAccess> take_watched();

  // Clock of a stream or thread, one epoch per lane: for explanations.
  std::vector<Epoch> clock_of(StreamId stream) const;
  std::vector<Epoch> clock_of(HostThreadId thread) const;
  LaneId lane_of(StreamId stream) const;
  LaneId lane_of(HostThreadId thread) const;
  EngineCounts counts() const;

 private:
  struct Parts;
  std::unique_ptr<Parts> parts_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ENGINE_H_
