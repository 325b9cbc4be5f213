#include "fairness.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <thread>
#include <vector>

#include "api_log.h"
#include "runtime.h"

namespace streamguard::vgpu {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kBusyTick{1};        // something is wanted or demanded
constexpr milliseconds kIdleTick{10};       // nothing to do
constexpr milliseconds kSampleInterval{5};  // reading every thread's state costs about 0.3 ms
constexpr int kIdleSamples = 3;             // samples in a row that find every thread asleep
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

// The state letter of a thread, from /proc/self/task/ID/stat: "ID (name) S ...".
char thread_state(const char* id) {
  const std::string path = std::string("/proc/self/task/") + id + "/stat";
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return 'X';
  char text[256];
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return 'X';
  text[length] = '\0';
  const char* name_end = std::strrchr(text, ')');
  return name_end != nullptr && name_end[1] == ' ' ? name_end[2] : 'X';
}

bool all_threads_sleep(const std::set<int>& waiting) {
  static const int kOwn = static_cast<int>(syscall(SYS_gettid));
  DIR* tasks = opendir("/proc/self/task");
  if (tasks == nullptr) return false;
  bool asleep = true;
  while (const dirent* entry = readdir(tasks)) {
    const int id = std::atoi(entry->d_name);
    if (id == 0 || id == kOwn || waiting.count(id) != 0) continue;
    const char state = thread_state(entry->d_name);
    if (state == 'R' || state == 'D') {
      asleep = false;
      break;
    }
  }
  closedir(tasks);
  return asleep;
}

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
      publish(lock, false);
      return false;
    }
    observe_activity(lock, executor);
    const bool idle = asleep_samples_ >= kIdleSamples;
    publish(lock, peers_wait && idle);
    if (idle) run_demanded(lock, executor);
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

  void publish(Lock& lock, bool idle) {
    if (idle == published_idle_) return;
    published_idle_ = idle;
    lock.unlock();
    {
      const std::lock_guard<std::mutex> guard(monitors_mutex);
      for (const PeerMonitor& monitor : monitors()) monitor.publish_idle(monitor.context, idle);
    }
    lock.lock();
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
    if (executor.activity() != seen_activity_) {
      forget_idleness(executor);
      return;
    }
    asleep_samples_ = asleep ? asleep_samples_ + 1 : 0;
  }

  static void run_demanded(Lock& lock, Executor& executor) {
    for (const auto& [mark, step] : executor.pending_steps()) {
      if (step->is_demanded()) executor.advance(lock, {mark});
    }
    executor.continue_wanted(lock);
  }

  void run_everything(Lock& lock, Executor& executor) {
    const size_t before = executor.pending();
    executor.advance(lock, executor.all_marks());
    executor.continue_wanted(lock);
    if (executor.pending() == before) return;
    ++rescues;
    log_line("rescue ran=%zu", before - executor.pending());
    forget_idleness(executor);
  }

  int asleep_samples_ = 0;
  bool published_idle_ = false;
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
