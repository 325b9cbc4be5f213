// Finds out that nothing will ever run again, and says where everything stands.
#ifndef STREAMGUARD_VGPU_RUNTIME_DEADLOCK_H_
#define STREAMGUARD_VGPU_RUNTIME_DEADLOCK_H_

#include <chrono>

#include "executor.h"

namespace streamguard::vgpu {

// What a process tells its peers about itself; numbers are shared between libraries.
enum class Idleness : int { kAtWork = 0, kAsleep = 1, kStuck = 2 };

// A communicator's answers about its own waits.
constexpr int kWaitsForNobody = 0;
constexpr int kPeersMayMove = 1;
constexpr int kDeadlocked = 2;

// How long this process has done nothing: no op ran, no call was made, and its threads and child
// processes slept. A thread that wakes for a moment now and then, as watchdogs do, is not work.
// Thread safety: the fairness worker only.
class Stillness {
 public:
  void note_work();
  // A look at the process's threads: did all sleep?
  void note_sample(bool asleep);
  // True once it has lasted for the set time. Releases the lock while it looks at children.
  bool has_lasted(Lock& lock, const Executor& executor);

 private:
  using Clock = std::chrono::steady_clock;

  Clock::time_point since_ = Clock::now();
  Clock::time_point children_checked_;
  int busy_samples_ = 0;
  uint64_t seen_executed_ = 0;
  uint64_t seen_activity_ = 0;
};

// Prints the op at the head of every stream that has work.
void print_pending_work(const Lock& lock);

// Ends host waits with cudaErrorLaunchTimeout; ends the process when an op's body never returns.
void end_process_waits(const Lock& lock);

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_DEADLOCK_H_
