// Runs ops in an order that stream order, events and fences allow and the schedule chooses.
#ifndef STREAMGUARD_VGPU_RUNTIME_EXECUTOR_H_
#define STREAMGUARD_VGPU_RUNTIME_EXECUTOR_H_

#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <set>
#include <vector>

#include "schedule.h"
#include "stream_registry.h"

namespace streamguard::vgpu {

using Lock = std::unique_lock<std::mutex>;

// Executes ops, one at a time in the whole process, each without the runtime's lock: the thread
// that executes holds the *turn*. Only a waiting step (a collective whose peers are late) gives
// the turn away before its op is done.
//
// Thread safety: REQUIRES the runtime's lock, which `Lock&` arguments stand for; they are released
// while op bodies run and while waiting.
// Invariants: 1. an op runs after every op it depends on. 2. one body at a time. 3. dependencies
// are older (smaller sequence), so issue order is always a possible order.
// Cost: issue is O(1) plus its fences; forcing visits each op of the closure once.
class Executor {
 public:
  Executor(StreamRegistry& streams, std::unique_ptr<SchedulePolicy> policy)
      : streams_(streams), policy_(std::move(policy)) {}

  // Adds an op to `stream`, after `dependencies` and what legacy fences demand; runs it at once if
  // the schedule says so. REQUIRES: the stream is not capturing.
  // `name` lives for ever.
  Mark issue(Lock& lock, Stream& stream, Work work, std::vector<Mark> dependencies,
             const char* name);

  // Returns when all marks are reached, executing what is needed: a host synchronisation.
  void force(Lock& lock, const std::vector<Mark>& targets);

  // Executes towards the marks as far as possible without waiting for other processes. False when
  // another thread has the turn.
  bool advance(Lock& lock, const std::vector<Mark>& targets);

  // Executes what other processes wait for and is queued here.
  void run_demanded(Lock& lock, Demand least);

  // Delays a stream: as long as it is held only a dependency, a host wait or another process makes
  // its ops run. Ends the delay, after everything issued to `first` as far as that waits for no
  // other process.
  void hold(Stream& stream) { stream.is_held = true; }
  void release(Lock& lock, Stream& stream, Stream* first);

  // Goes on with what the schedule wanted at issue and could not be finished then.
  void continue_wanted(Lock& lock);

  // A mark for everything issued so far to one stream, with legacy fences for the legacy stream.
  std::vector<Mark> tail_marks(Stream& stream);
  std::vector<Mark> device_marks(int device) const;
  std::vector<Mark> all_marks() const;

  size_t pending() const { return pending_; }
  bool has_wanted() const { return !wanted_.empty(); }
  const SchedulePolicy& policy() const { return *policy_; }

  // Runs everything, then goes on under another schedule, which counts ops and streams from here.
  // False when work remains that only another process can end.
  bool restart(Lock& lock, std::unique_ptr<SchedulePolicy> policy);

  // Steps issued and not yet run, oldest first; the fairness worker looks at these.
  std::vector<std::pair<Mark, std::shared_ptr<Step>>> pending_steps();

  // Kernel ids of threads that sleep inside force(): idleness detection leaves them out.
  const std::set<int>& waiting_threads() const { return waiting_threads_; }

  // Ops executed so far.
  uint64_t executed() const { return executed_; }
  // A host waits for work to end.
  bool has_host_waiting() const { return host_waits_ > 0; }
  bool has_turn_taken() const { return turn_taken_; }

  // Grows with every issue and every host wait by a thread that issues work.
  uint64_t activity() const { return activity_; }
  void note_activity() { ++activity_; }

 private:
  struct Closure;

  void collect(Closure& closure, const std::vector<Mark>& targets);
  void run_closure(Lock& lock, Closure& closure);
  Outcome run_front(Lock& lock, Stream& stream);
  void yield_to_peers(Lock& lock, const std::vector<Mark>& targets, int attempt);
  void want(Stream& stream, uint64_t position);
  void remember_step(const Mark& mark, std::shared_ptr<Step> step);
  void forget_reached_steps();
  void settle(Lock& lock, const Mark& mark, bool waits_for_turn);
  void release_turn(Lock& lock);
  void sleep_unlocked(Lock& lock, int attempt);

  StreamRegistry& streams_;
  std::unique_ptr<SchedulePolicy> policy_;
  std::condition_variable turn_changed_;
  bool turn_taken_ = false;
  bool wants_changed_ = false;
  std::vector<Stream*> wanted_;
  std::vector<std::pair<Mark, std::shared_ptr<Step>>> steps_;
  size_t forget_steps_at_ = 64;
  std::set<int> waiting_threads_;
  size_t pending_ = 0;
  uint64_t next_sequence_ = 1;
  uint64_t activity_ = 0;
  uint64_t executed_ = 0;
  int host_waits_ = 0;
  // How the last attempt to run a waiting step ended: kStalled ends waiting at issue.
  Outcome last_wait_ = Outcome::kDone;
};

// True while this thread runs an op's body: CUDA allows no CUDA call there.
bool in_op_body();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_EXECUTOR_H_
