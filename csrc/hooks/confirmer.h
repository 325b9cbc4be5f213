#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>
#include <vector>

#include "core/engine.h"
#include "hooks/delay.h"
#include "hooks/delayed_try.h"
#include "hooks/detector.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {

/// Tries whether a race that was found shows in the bytes, when its pair of ops comes again: delays
/// the stream of the first op, lets the second come as the program has it, and compares.
///
/// Waits for nothing and orders nothing, so the program computes what it would with a slower
/// stream. One try at a time; at most kTries for a pair, none after the first that shows it.
/// Not tried: graphs, a first op on the host, use after free.
///
/// Thread safety: all members may be called from any thread. REQUIRES: the detector's mutex is not
/// held. Never destroyed. Cost: the mutex for each op; during a try one question to the engine.
class Confirmer {
 public:
  static constexpr uint64_t kTries = 5;

  static Confirmer& get();

  bool is_active() const { return is_active_.load(std::memory_order_relaxed); }
  /// `probes`: as of `load_probes`.
  void start(const std::string& probes);
  void stop();
  /// In a forked child, which has no CUDA and the mutex as it was.
  void stop_in_child() { is_active_.store(false); }

  /// The op is about to be launched on `stream` with these accesses, as far as they are known.
  void before_launch(const ThreadState& thread, core::StreamId stream,
                     const std::vector<core::Access>& accesses, core::OpInfo info);
  void before_collective(const ThreadState& thread, core::StreamId stream,
                         core::CommunicatorId communicator,
                         const std::vector<core::Access>& accesses, core::OpInfo info);
  /// The host is about to access bytes itself.
  void before_host_access(const ThreadState& thread, const std::vector<core::Access>& accesses,
                          core::OpInfo info);
  /// torch's allocator, whose lock is held, has just handed out `block` to the op that is under
  /// way, which is going to write it on `stream`.
  void before_new_block(const ThreadState& thread, core::StreamId stream, core::AllocationId block,
                        core::ByteRange bytes, core::OpInfo info);
  /// That op was issued as `op`; kNoStream: on the host.
  void after_issue(const ThreadState& thread, core::StreamId stream,
                   const std::vector<core::Access>& accesses, core::OpId op);

  /// Reads the outcome of a try that is over.
  void collect();

 private:
  struct Side {
    core::LabelId label;
    core::SiteId site;
    core::StreamId stream;
    friend bool operator==(const Side&, const Side&) = default;
  };
  struct Target {
    int finding;
    Side first;
    Side second;
    core::Race::Kind kind;
    core::ByteRange seen_at;
    uint64_t tries = 0;
    uint64_t passed_over = 0;  // occurrences of the first op elsewhere than `seen_at`
    std::chrono::microseconds delay{1000};
    bool is_over = false;
  };
  enum class Phase : uint8_t {
    kIdle,
    kDelayed,  // the first op is being issued by `thread_`
    kArmed,    // it was issued as `first_op_`
    kMeeting,  // the second op is being issued by `thread_`
    kEnding,   // both were issued; the copies run
  };

  // A delay that is over for us, to be ended where the mutex is not held: work may run then.
  struct Ended {
    bool is_held = false;
    Delayed delayed;
    bool has_first = false;
    uint64_t first = 0;
    void end() const;
  };

  Confirmer() = default;
  template <typename Foresee>
  void before(const ThreadState& thread, const Side& side, core::AccessSpan accesses,
              bool is_new_block, Foresee foresee);
  // Whether this op is the second one of the try under way; if so, copies what it begins on.
  template <typename Foresee>
  bool meets(const ThreadState& thread, const Side& side, Foresee foresee);
  void learn_targets();
  // Delays the op if it is the first one of a pair that is still to be tried.
  void arm(const ThreadState& thread, const Side& side, core::AccessSpan accesses, Ended& ended);
  void finish_if_over();
  Ended give_up();

  std::atomic<bool> is_active_{false};
  std::mutex mutex_;
  std::vector<Target> targets_;
  size_t findings_known_ = 0;

  // The try under way.
  Phase phase_ = Phase::kIdle;
  size_t target_ = 0;
  core::HostThreadId thread_ = core::kNoHostThread;
  core::OpId first_op_ = core::kNoOp;
  Delayed delayed_;
  Side issuing_;  // what kDelayed and kMeeting speak of
  DelayedTry try_;
  int second_device_ = 0;
  uint64_t second_handle_ = 0;
  uint64_t ops_since_ = 0;
  void* first_ended_ = nullptr;   // cudaEvent_t of delayed_.device, behind the first op
  void* second_ended_ = nullptr;  // cudaEvent_t of second_device_, behind the second op
};

}  // namespace streamguard::hooks
