#include "program_end.h"

#include <atomic>
#include <chrono>
#include <thread>

#include "api_log.h"
#include "runtime.h"

namespace streamguard::vgpu {
namespace {

std::atomic<bool> ending{false};
std::atomic<bool> abandoned{false};

constexpr std::chrono::milliseconds kLook{1};

}  // namespace

bool is_ending() { return ending; }
bool has_abandoned_work() { return abandoned; }

unsigned long long finish_queued_work(long patience_ms) {
  if (!has_runtime() || ending.exchange(true)) return 0;
  Executor& executor = runtime().executor;
  Lock lock(runtime().mutex);
  if (executor.pending() == 0 || sticky_error() != cudaSuccess) return 0;
  log_line("finish pending=%zu", executor.pending());
  // Its own thread: a host function may never return, and the program ends nevertheless.
  std::thread([] {
    Lock worker_lock(runtime().mutex);
    runtime().executor.force(worker_lock, runtime().executor.all_marks());
  }).detach();
  uint64_t seen = executor.executed();
  auto moved_at = std::chrono::steady_clock::now();
  while (executor.pending() != 0 && sticky_error() == cudaSuccess) {
    const auto now = std::chrono::steady_clock::now();
    if (executor.executed() != seen) {
      seen = executor.executed();
      moved_at = now;
    }
    if (now - moved_at > std::chrono::milliseconds(patience_ms)) {
      abandoned = true;
      log_line("finish lost=%zu", executor.pending());
      return executor.pending();
    }
    lock.unlock();
    std::this_thread::sleep_for(kLook);
    lock.lock();
  }
  return 0;
}

}  // namespace streamguard::vgpu
