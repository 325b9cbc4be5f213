#include "fairness.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <thread>
#include <vector>

#include "api_log.h"
#include "deadlock.h"
#include "runtime.h"
#include "thread_states.h"

namespace streamguard::vgpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBusyTick{1};        // something is wanted or demanded
constexpr milliseconds kIdleTick{10};       // nothing to do
constexpr milliseconds kSampleInterval{5};  // reading every thread's state costs about 0.3 ms
constexpr int kIdleSamples = 6;             // samples in a row that find every thread asleep
constexpr milliseconds kAsleepRescue{1000};
constexpr milliseconds kSilentRescue{20000};

std::mutex monitors_mutex;
std::vector<PeerMonitor>& monitors() {
  static auto* const kMonitors = new std::vector<PeerMonitor>;
  return *kMonitors;
}
std::atomic<uint64_t> rescues{0};
// Set when the process begins to exit: op bodies may use libraries that are being torn down.
std::atomic<bool> exiting{false};

class Worker {
 public:
  void loop() {
    while (!exiting) {
      std::this_thread::sleep_for(tick() ? kBusyTick : kIdleTick);
    }
  }

 private:
  // True when the next tick should come soon.
  bool tick() {
    const bool peers_wait = ask_monitors();
    Lock lock(runtime().mutex);
    Executor& executor = runtime().executor;
    executor.continue_wanted(lock);
    if (executor.pending() == 0 && !peers_wait) {
      forget_idleness(executor);
      stillness_.note_work();
      publish(lock, Idleness::kAtWork);
      return false;
    }
    observe_activity(lock, executor);
    const bool idle = asleep_samples_ >= kIdleSamples;
    const bool stuck = stillness_.has_lasted(lock, executor);
    publish(lock, stuck                ? Idleness::kStuck
                  : peers_wait && idle ? Idleness::kAsleep
                                       : Idleness::kAtWork);
    if (stuck && executor.has_host_waiting()) report_if_deadlocked(lock);
    if (idle) {
      executor.run_demanded(lock, Demand::kFromBelow);
      executor.continue_wanted(lock);
    }
    // A thread that waits for a slow peer is no reason: the peer's demand moves what it needs.
    const bool only_sleeps = idle && executor.waiting_threads().empty();
    const auto silent = std::chrono::steady_clock::now() - last_activity_;
    if (silent > (only_sleeps ? kAsleepRescue : kSilentRescue)) run_everything(lock, executor);
    return peers_wait || executor.has_wanted();
  }

  static bool ask_monitors() {
    const std::lock_guard<std::mutex> guard(monitors_mutex);
    return std::any_of(monitors().begin(), monitors().end(), [](const PeerMonitor& monitor) {
      return monitor.has_unmet_demand(monitor.context) != 0;
    });
  }

  void publish(Lock& lock, Idleness idleness) {
    if (idleness == published_) return;
    published_ = idleness;
    lock.unlock();
    {
      const std::lock_guard<std::mutex> guard(monitors_mutex);
      for (const PeerMonitor& monitor : monitors()) {
        monitor.publish_idleness(monitor.context, static_cast<int>(idleness));
      }
    }
    lock.lock();
  }

  void report_if_deadlocked(Lock& lock) {
    if (has_reported_) return;
    lock.unlock();
    bool peers_may_move = false;
    bool has_failed_communicator = false;
    {
      const std::lock_guard<std::mutex> guard(monitors_mutex);
      for (const PeerMonitor& monitor : monitors()) {
        const int answer = monitor.end_if_deadlocked(monitor.context, settings().deadlock_s);
        peers_may_move = peers_may_move || answer == kPeersMayMove;
        has_failed_communicator = has_failed_communicator || answer == kDeadlocked;
      }
    }
    lock.lock();
    if (peers_may_move && !has_failed_communicator) return;
    has_reported_ = true;
    print_pending_work(lock);
    if (!has_failed_communicator) end_process_waits(lock);
  }

  void forget_idleness(Executor& executor) {
    asleep_samples_ = 0;
    seen_activity_ = executor.activity();
    last_activity_ = std::chrono::steady_clock::now();
  }

  void observe_activity(Lock& lock, Executor& executor) {
    if (executor.activity() != seen_activity_) {
      forget_idleness(executor);
      return;
    }
    const auto now = std::chrono::steady_clock::now();
    if (now - last_sample_ < kSampleInterval) return;
    last_sample_ = now;
    const std::set<int> waiting = executor.waiting_threads();
    lock.unlock();
    const bool asleep = all_threads_sleep(waiting);
    lock.lock();
    stillness_.note_sample(asleep);
    if (executor.activity() != seen_activity_) {
      forget_idleness(executor);
      return;
    }
    asleep_samples_ = asleep ? asleep_samples_ + 1 : 0;
  }

  void run_everything(Lock& lock, Executor& executor) {
    const size_t before = executor.pending();
    // Counted first: what runs may wake the program, which may ask.
    ++rescues;
    executor.advance(lock, executor.all_marks());
    executor.continue_wanted(lock);
    if (executor.pending() == before) {
      --rescues;
      return;
    }
    log_line("rescue ran=%zu", before - executor.pending());
    forget_idleness(executor);
  }

  int asleep_samples_ = 0;
  Idleness published_ = Idleness::kAtWork;
  Stillness stillness_;
  bool has_reported_ = false;
  uint64_t seen_activity_ = 0;
  std::chrono::steady_clock::time_point last_activity_ = std::chrono::steady_clock::now();
  std::chrono::steady_clock::time_point last_sample_;
};

}  // namespace

void start_fairness_worker() {
  static std::once_flag started;
  std::call_once(started, [] {
    std::atexit([] { exiting = true; });
    std::thread([] { Worker().loop(); }).detach();
  });
}

void add_peer_monitor(const PeerMonitor& monitor) {
  {
    const std::lock_guard<std::mutex> guard(monitors_mutex);
    monitors().push_back(monitor);
  }
  start_fairness_worker();
}

void remove_peer_monitor(void* context) {
  const std::lock_guard<std::mutex> guard(monitors_mutex);
  auto& all = monitors();
  all.erase(std::remove_if(all.begin(), all.end(),
                           [&](const PeerMonitor& m) { return m.context == context; }),
            all.end());
}

uint64_t timed_rescues() { return rescues; }

}  // namespace streamguard::vgpu
