#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine.h"
#include "hooks/detector.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {

/// Puts the waits in that a program lacks: before an op starts that nothing orders after a
/// conflicting one, records an event on the other stream and makes the op's stream wait for it.
///
/// The engine is told of both, so the pair is no race any more; it is filed as an inserted wait.
/// What cannot be ordered (a stream that is being captured, a use after free) stays a finding.
///
/// Thread safety: all members may be called from any thread. REQUIRES: the detector's mutex is not
/// held. Only CUDA's event calls are made, never c10's, so that the allocator's lock may be held.
/// Never destroyed. Cost where nothing is missing: one question to the engine an op.
class Enforcer {
 public:
  static Enforcer& get();

  bool is_active() const { return is_active_.load(std::memory_order_relaxed); }
  /// From now on waits are put in, where `only` is not empty only for streams one of whose names
  /// matches one of these patterns. `is_timed`: device times say something, so waits are timed.
  void start(std::vector<std::string> only, bool is_timed);
  void stop();

  /// The op is about to be launched on `stream` with these accesses.
  void order_launch(const ThreadState& thread, core::StreamId stream,
                    const std::vector<core::Access>& accesses, core::OpInfo info);
  void order_collective(const ThreadState& thread, core::StreamId stream,
                        core::CommunicatorId communicator,
                        const std::vector<core::Access>& accesses, core::OpInfo info);
  /// The graph is about to be replayed on `stream`.
  void order_graph(const ThreadState& thread, core::StreamId stream, core::GraphId graph);
  /// The host is about to access bytes itself.
  void order_host_access(const ThreadState& thread, const std::vector<core::Access>& accesses,
                         core::OpInfo info);

  /// torch's allocator, whose lock is held, has just handed out `block` to the op that is under
  /// way, which is going to write it on `stream`.
  void order_new_block(const ThreadState& thread, core::StreamId stream, core::AllocationId block,
                       core::ByteRange bytes, core::OpInfo info);

  /// Reads the times of the waits that are over. Cost: two event queries for each that is not.
  void collect_times();

 private:
  struct Settings {
    std::vector<std::string> only;
    bool is_timed = false;
  };
  // One event to be recorded on `from`, and the races that waiting for it orders.
  struct Wait {
    core::StreamId from;
    int from_device;
    uint64_t from_handle;
    void* event;  // cudaEvent_t
    std::vector<core::Race> races;
    bool is_inserted = false;
    bool is_awaited_running = false;
    void* reached = nullptr;  // cudaEvent_t: where the waiting stream began to wait
  };
  struct Timed {
    int device;
    void* reached;
    void* event;
    std::vector<int> findings;
  };
  struct Waiter {
    core::StreamId stream;  // kNoStream: the host
    int device = 0;
    uint64_t handle = 0;
  };

  Enforcer() = default;
  // Returns: the device of the waiting stream.
  template <typename Foresee>
  int ask(const ThreadState& thread, core::StreamId waiting, Foresee foresee);
  std::vector<Wait> plan(detection::DetectorState& state, const ThreadState& thread,
                         core::StreamId waiting, const std::vector<core::Race>& races);
  bool is_wanted(const detection::DetectorState& state, core::StreamId waiting,
                 core::StreamId from) const;
  void insert(Wait& wait, const Waiter& waiter) const;
  // Returns: whether the events of the wait are needed until it is over.
  bool keep_for_times(const Wait& wait, std::vector<int> findings);
  void file(detection::DetectorState& state, const ThreadState& thread, const Waiter& waiter,
            std::vector<Wait>& waits);

  std::atomic<bool> is_active_{false};
  std::atomic<std::shared_ptr<const Settings>> settings_;
  std::mutex timed_mutex_;
  std::vector<Timed> timed_;
};

}  // namespace streamguard::hooks
