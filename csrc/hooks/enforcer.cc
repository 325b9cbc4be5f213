#include "hooks/enforcer.h"

#include <cuda_runtime_api.h>
#include <fnmatch.h>

#include <algorithm>
#include <utility>

#include "hooks/event_pool.h"
#include "hooks/own_calls.h"
#include "hooks/relaxed_capture.h"

namespace streamguard::hooks {
namespace {

EventPool& pool() {
  static EventPool& events = *std::make_unique<EventPool>().release();
  return events;
}

cudaEvent_t event_of(void* handle) { return static_cast<cudaEvent_t>(handle); }

cudaStream_t stream_of_handle(uint64_t handle) { return reinterpret_cast<cudaStream_t>(handle); }

core::EventId id_of(void* event) { return core::EventId{reinterpret_cast<uint64_t>(event)}; }

// "Not ready" is an answer and no error, but CUDA keeps it as the last error.
bool is_running(cudaEvent_t event) {
  if (cudaEventQuery(event) != cudaErrorNotReady) return false;
  (void)cudaGetLastError();
  return true;
}

bool is_captured(cudaStream_t stream) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  if (cudaStreamIsCapturing(stream, &status) != cudaSuccess) {
    (void)cudaGetLastError();
    return true;
  }
  return status != cudaStreamCaptureStatusNone;
}

bool matches(const std::string& pattern, const std::string& name) {
  return fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

thread_local int own_calls_depth = 0;

}  // namespace

bool is_own_call() { return own_calls_depth > 0; }
OwnCalls::OwnCalls() { ++own_calls_depth; }
OwnCalls::~OwnCalls() { --own_calls_depth; }

Enforcer& Enforcer::get() {
  static Enforcer& enforcer = *std::unique_ptr<Enforcer>(new Enforcer()).release();
  return enforcer;
}

void Enforcer::start(std::vector<std::string> only, bool is_timed) {
  settings_.store(std::make_shared<const Settings>(Settings{std::move(only), is_timed}));
  is_active_.store(true, std::memory_order_relaxed);
}

void Enforcer::stop() { is_active_.store(false, std::memory_order_relaxed); }

template <typename Foresee>
int Enforcer::ask(const ThreadState& thread, core::StreamId waiting, Foresee foresee) {
  std::vector<Wait> waits;
  Waiter waiter{waiting};
  {
    const Detector::Access detector(Detector::get());
    if (waiting != core::kNoStream) {
      const detection::Stream& info = detector->streams.get(waiting);
      waiter.device = info.device;
      waiter.handle = info.handle;
    }
    const std::vector<core::Race> races = foresee(detector->engine);
    if (!races.empty()) waits = plan(*detector, thread, waiting, races);
  }
  if (waits.empty()) return waiter.device;
  const OwnCalls own_calls;
  collect_times();
  for (Wait& wait : waits) insert(wait, waiter);
  const Detector::Access detector(Detector::get());
  file(*detector, thread, waiter, waits);
  return waiter.device;
}

void Enforcer::order_launch(const ThreadState& thread, core::StreamId stream,
                            const std::vector<core::Access>& accesses, core::OpInfo info) {
  pool().prepare(ask(thread, stream, [&](trace::RecordedEngine& engine) {
    return engine.foresee_launch(thread.id, stream, accesses, info);
  }));
}

void Enforcer::order_collective(const ThreadState& thread, core::StreamId stream,
                                core::CommunicatorId communicator,
                                const std::vector<core::Access>& accesses, core::OpInfo info) {
  pool().prepare(ask(thread, stream, [&](trace::RecordedEngine& engine) {
    return engine.foresee_collective(thread.id, stream, communicator, accesses, info);
  }));
}

void Enforcer::order_graph(const ThreadState& thread, core::StreamId stream, core::GraphId graph) {
  pool().prepare(ask(thread, stream, [&](trace::RecordedEngine& engine) {
    return engine.foresee_graph(thread.id, graph, stream);
  }));
}

void Enforcer::order_host_access(const ThreadState& thread,
                                 const std::vector<core::Access>& accesses, core::OpInfo info) {
  ask(thread, core::kNoStream, [&](trace::RecordedEngine& engine) {
    return engine.foresee_host_access(thread.id, accesses, info);
  });
}

void Enforcer::order_new_block(const ThreadState& thread, core::StreamId stream,
                               core::AllocationId block, core::ByteRange bytes, core::OpInfo info) {
  const core::Access written{core::Region::of_range(bytes), core::AccessKind::kWrite, block};
  ask(thread, stream, [&](trace::RecordedEngine& engine) {
    return engine.foresee_launch(thread.id, stream, {&written, 1}, info);
  });
}

bool Enforcer::is_wanted(const detection::DetectorState& state, core::StreamId waiting,
                         core::StreamId from) const {
  const std::shared_ptr<const Settings> settings = settings_.load();
  if (settings == nullptr || settings->only.empty()) return true;
  for (const core::StreamId stream : {waiting, from}) {
    if (stream == core::kNoStream) continue;
    const std::string name = state.streams.name(stream);
    const auto& only = settings->only;
    if (std::any_of(only.begin(), only.end(),
                    [&](const std::string& pattern) { return matches(pattern, name); })) {
      return true;
    }
  }
  return false;
}

// The engine records before CUDA does: what another thread issues in between is then covered by the
// wait although the engine does not know it, which can never hide a race.
std::vector<Enforcer::Wait> Enforcer::plan(detection::DetectorState& state,
                                           const ThreadState& thread, core::StreamId waiting,
                                           const std::vector<core::Race>& races) {
  std::vector<Wait> waits;
  for (const core::Race& race : races) {
    const core::StreamId from = race.first.on_host ? core::kNoStream : race.first.stream;
    // What the host did is in the past of everything issued now; a graph's own branches are ordered
    // by the graph or not at all.
    if (from == core::kNoStream || from == waiting || !is_wanted(state, waiting, from)) continue;
    const auto known = std::find_if(waits.begin(), waits.end(),
                                    [&](const Wait& wait) { return wait.from == from; });
    if (known != waits.end()) {
      known->races.push_back(race);
      continue;
    }
    const detection::Stream& info = state.streams.get(from);
    // One side in a capture: the wait would tie the capture to work outside of it, which CUDA
    // refuses.
    void* event = state.engine.is_capturing(from) ? nullptr : pool().take(info.device);
    if (event == nullptr) {
      ++state.counters.waits_not_inserted;
      continue;
    }
    state.engine.record_event(thread.id, id_of(event), from);
    waits.push_back({from, info.device, info.handle, event, {race}});
  }
  return waits;
}

void Enforcer::insert(Wait& wait, const Waiter& waiter) const {
  const cudaStream_t from = stream_of_handle(wait.from_handle);
  const cudaStream_t stream = stream_of_handle(waiter.handle);
  const cudaEvent_t event = event_of(wait.event);
  const RelaxedCapture relaxed;
  {
    const RawDeviceGuard guard(wait.from_device);
    if (is_captured(from) || cudaEventRecord(event, from) != cudaSuccess) return;
  }
  wait.is_awaited_running = is_running(event);
  if (waiter.stream == core::kNoStream) {
    wait.is_inserted = cudaEventSynchronize(event) == cudaSuccess;
    return;
  }
  const RawDeviceGuard guard(waiter.device);
  if (is_captured(stream)) return;
  const std::shared_ptr<const Settings> settings = settings_.load();
  if (settings != nullptr && settings->is_timed && waiter.device == wait.from_device) {
    wait.reached = pool().take_spare(waiter.device);
    if (wait.reached != nullptr) cudaEventRecord(event_of(wait.reached), stream);
  }
  wait.is_inserted = cudaStreamWaitEvent(stream, event, 0) == cudaSuccess;
}

void Enforcer::file(detection::DetectorState& state, const ThreadState& thread,
                    const Waiter& waiter, std::vector<Wait>& waits) {
  for (Wait& wait : waits) {
    if (wait.is_inserted) {
      ++state.counters.waits_inserted;
      if (waiter.stream == core::kNoStream) {
        state.engine.sync_event(thread.id, id_of(wait.event));
      } else {
        state.engine.wait_event(thread.id, waiter.stream, id_of(wait.event));
      }
      std::vector<int> findings =
          state.findings.add_inserted_wait(wait.races, state.step, wait.is_awaited_running);
      if (keep_for_times(wait, std::move(findings))) continue;
    } else {
      ++state.counters.waits_not_inserted;
    }
    // A wait takes the record it met: the event may be recorded again at once (HB-03).
    pool().give_back(wait.from_device, event_of(wait.event));
    if (wait.reached != nullptr) pool().give_back(waiter.device, event_of(wait.reached));
  }
}

bool Enforcer::keep_for_times(const Wait& wait, std::vector<int> findings) {
  if (wait.reached == nullptr) return false;
  const std::lock_guard<std::mutex> lock(timed_mutex_);
  timed_.push_back({wait.from_device, wait.reached, wait.event, std::move(findings)});
  return true;
}

void Enforcer::collect_times() {
  std::vector<Timed> over;
  const OwnCalls own_calls;
  const RelaxedCapture relaxed;
  {
    const std::lock_guard<std::mutex> lock(timed_mutex_);
    const auto first_over =
        std::stable_partition(timed_.begin(), timed_.end(), [](const Timed& timed) {
          return is_running(event_of(timed.event)) || is_running(event_of(timed.reached));
        });
    over.assign(first_over, timed_.end());
    timed_.erase(first_over, timed_.end());
  }
  for (const Timed& timed : over) {
    float waited_ms = 0;
    const bool is_known = cudaEventElapsedTime(&waited_ms, event_of(timed.reached),
                                               event_of(timed.event)) == cudaSuccess;
    if (is_known) {
      const Detector::Access detector(Detector::get());
      for (const int finding : timed.findings) {
        // Negative: the awaited work was over before the stream came to the wait.
        detector->findings.add_waiting_time(finding, std::max(0.0f, waited_ms));
      }
    }
    pool().give_back(timed.device, event_of(timed.event));
    pool().give_back(timed.device, event_of(timed.reached));
  }
}

}  // namespace streamguard::hooks
