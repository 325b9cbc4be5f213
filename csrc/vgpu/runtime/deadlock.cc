#include "deadlock.h"

#include <unistd.h>

#include <cstdio>
#include <string>

#include "api_log.h"
#include "runtime.h"
#include "thread_states.h"

namespace streamguard::vgpu {
namespace {

constexpr int kBusySamples = 20;  // in a row: about a tenth of a second of work
constexpr std::chrono::seconds kChildrenInterval{1};
constexpr int kSoftwareStatus = 70;  // EX_SOFTWARE

const char* name_of(StreamKind kind) {
  switch (kind) {
    case StreamKind::kLegacy:
      return "default";
    case StreamKind::kBlocking:
      return "blocking";
    case StreamKind::kNonBlocking:
      return "non-blocking";
  }
  return "";
}

std::string name_of(const Op& op) {
  const auto* step = std::get_if<std::shared_ptr<Step>>(&op.work);
  return step == nullptr ? op.name : (*step)->describe();
}

std::string describe_head(const Stream& stream) {
  const Op& head = stream.pending.front();
  std::string text = "  stream " + std::to_string(stream.index) + " (device " +
                     std::to_string(stream.device) + ", " + name_of(stream.kind) + ", " +
                     std::to_string(stream.pending.size()) + " pending): " + name_of(head);
  const char* separator = ", waits for ";
  for (const Mark& mark : head.dependencies) {
    if (is_reached(mark)) continue;
    text += separator + ("op " + std::to_string(mark.position) + " of stream ") +
            std::to_string(mark.stream->index);
    separator = " and ";
  }
  return text;
}

}  // namespace

void Stillness::note_work() {
  since_ = Clock::now();
  busy_samples_ = 0;
}

void Stillness::note_sample(bool asleep) {
  busy_samples_ = asleep ? 0 : busy_samples_ + 1;
  if (busy_samples_ >= kBusySamples) note_work();
}

bool Stillness::has_lasted(Lock& lock, const Executor& executor) {
  if (settings().deadlock_s == 0) return false;
  if (executor.executed() != seen_executed_ || executor.activity() != seen_activity_) {
    seen_executed_ = executor.executed();
    seen_activity_ = executor.activity();
    note_work();
    return false;
  }
  const auto now = Clock::now();
  if (now - children_checked_ > kChildrenInterval) {
    children_checked_ = now;
    lock.unlock();
    const bool busy = has_busy_child();
    lock.lock();
    if (busy) note_work();
  }
  return now - since_ > std::chrono::seconds(settings().deadlock_s);
}

void print_pending_work(const Lock&) {
  const Executor& executor = runtime().executor;
  std::string text = "streamguard: deadlock: nothing ran for " +
                     std::to_string(settings().deadlock_s) + " s (STREAMGUARD_VGPU_DEADLOCK_S); " +
                     std::to_string(executor.pending()) +
                     " ops are pending. Next op of every stream:\n";
  for (const auto& stream : runtime().streams.all()) {
    if (!stream->pending.empty()) text += describe_head(*stream) + "\n";
  }
  log_line("deadlock pending=%zu", executor.pending());
  std::fputs(text.c_str(), stderr);
}

void end_process_waits(const Lock&) {
  if (runtime().executor.has_turn_taken()) {
    std::fputs("streamguard: the op that runs never returns: the process ends\n", stderr);
    std::fflush(nullptr);
    _exit(kSoftwareStatus);
  }
  set_sticky_error(cudaErrorLaunchTimeout);
}

}  // namespace streamguard::vgpu
