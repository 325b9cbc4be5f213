#include "hooks/gpu_trace.h"

#include <c10/core/TensorImpl.h>
#include <c10/core/impl/GPUTrace.h>
#include <c10/core/impl/PyInterpreter.h>

#include <atomic>
#include <memory>
#include <utility>

#include "cupti/heard_call.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/op_scope.h"
#include "hooks/runtime_calls.h"
#include "hooks/trace_only_interpreter.h"

namespace streamguard::hooks {
namespace {

using c10::DeviceType;
using c10::impl::GPUTrace;
using c10::impl::PyInterpreter;

std::atomic<const PyInterpreter*> previous_trace{nullptr};

bool is_watched(DeviceType device_type) {
  return device_type == DeviceType::CUDA && Detector::get().is_active();
}

ThreadState& arriving_thread() {
  ThreadState& thread = this_thread();
  thread.freed_just_now = 0;
  return thread;
}

// The op that the thread is in may hold the record back, place its accesses before it, or record
// again behind copies of its own.
void note_record(uint64_t event_handle, uint64_t stream_handle) {
  ThreadState& thread = arriving_thread();
  const core::StreamId stream = stream_of(current_device(), stream_handle);
  const core::EventId event{event_handle};
  thread.last_record = event_handle;
  const bool is_held = thread.scope != nullptr && thread.scope->on_record(event, stream);
  const Detector::Access detector(Detector::get());
  ++detector->counters.records;
  if (!is_held) detector->engine.record_event(thread.id, event, stream);
}

// Before and after the wait the op may order its accesses, by CUDA calls.
void note_wait(uint64_t event_handle, uint64_t stream_handle) {
  ThreadState& thread = arriving_thread();
  const core::StreamId stream = stream_of(current_device(), stream_handle);
  const core::EventId event{event_handle};
  if (thread.scope != nullptr) thread.scope->on_wait(event, stream);
  {
    const Detector::Access detector(Detector::get());
    ++detector->counters.waits;
    detector->works.note_wait(event);
    detector->engine.wait_event(thread.id, stream, event);
  }
  if (thread.scope != nullptr) thread.scope->after_wait(stream);
}

void note_event_deletion(uint64_t event_handle) {
  arriving_thread();
  const core::EventId event{event_handle};
  const Detector::Access detector(Detector::get());
  detector->engine.destroy_event(event);
  detector->works.note_event_deletion(event);
}

// Whether the interposer has told of this call already; then torch's trace of it is passed over.
bool is_told(uint64_t& told_event, uint64_t event_handle) {
  if (told_event != event_handle) return false;
  told_event = 0;
  return true;
}

void note_traced_record(uint64_t event_handle, uint64_t stream_handle) {
  ThreadState& thread = this_thread();
  if (!is_told(thread.told_record, event_handle)) {
    note_record(event_handle, stream_handle);
    return;
  }
  hooks::note_traced_record();
  if (!std::exchange(thread.is_scope_due, false)) return;
  note_record(event_handle, stream_handle);
  --Detector::Access(Detector::get())->counters.records;
}

void note_traced_wait(uint64_t event_handle, uint64_t stream_handle) {
  ThreadState& thread = this_thread();
  if (!is_told(thread.told_wait, event_handle)) {
    note_wait(event_handle, stream_handle);
    return;
  }
  hooks::note_traced_wait();
  if (!std::exchange(thread.is_scope_due, false)) return;
  note_wait(event_handle, stream_handle);
  --Detector::Access(Detector::get())->counters.waits;
}

// The three waits of the host. torch traces them before it calls CUDA, and from a copy even before
// the copy: inside an op they take effect at its end.
void note_stream_sync(uint64_t stream_handle) {
  ThreadState& thread = arriving_thread();
  const core::StreamId stream = stream_of(current_device(), stream_handle);
  const Detector::Access detector(Detector::get());
  ++detector->counters.syncs;
  if (thread.scope != nullptr) {
    thread.scope->add_stream_wait(stream);
  } else {
    detector->engine.sync_stream(thread.id, stream);
  }
}

void note_event_sync(uint64_t event_handle) {
  ThreadState& thread = arriving_thread();
  const core::EventId event{event_handle};
  const Detector::Access detector(Detector::get());
  ++detector->counters.syncs;
  if (thread.scope != nullptr) {
    thread.scope->add_event_wait(event);
  } else {
    detector->engine.sync_event(thread.id, event);
  }
}

void note_device_sync() {
  ThreadState& thread = arriving_thread();
  const core::DeviceId device{current_device()};
  const Detector::Access detector(Detector::get());
  ++detector->counters.syncs;
  if (thread.scope != nullptr) {
    thread.scope->add_device_wait(device);
  } else {
    detector->engine.sync_device(thread.id, device);
  }
}

template <class Note>
void note_traced_sync(const Note& note) {
  this_thread().is_sync_traced = true;
  note();
}

/// The callbacks carry no device, and the default stream is 0 on every device: the current device
/// is the one they speak of.
class TraceTable final : public TraceOnlyInterpreter {
 public:
  // Creation is not used: c10::Event passes the address of a local variable for the event. The
  // first record is creation enough, and allocations come from the allocator itself, with their
  // sizes.
  void trace_gpu_event_creation(DeviceType type, uintptr_t event) const override {
    forward([&](const auto& next) { next.trace_gpu_event_creation(type, event); });
  }
  void trace_gpu_event_deletion(DeviceType type, uintptr_t event) const override {
    if (is_watched(type)) note_event_deletion(event);
    forward([&](const auto& next) { next.trace_gpu_event_deletion(type, event); });
  }
  void trace_gpu_event_record(DeviceType type, uintptr_t event, uintptr_t stream) const override {
    if (is_watched(type)) note_traced_record(event, stream);
    forward([&](const auto& next) { next.trace_gpu_event_record(type, event, stream); });
  }
  void trace_gpu_event_wait(DeviceType type, uintptr_t event, uintptr_t stream) const override {
    if (is_watched(type)) note_traced_wait(event, stream);
    forward([&](const auto& next) { next.trace_gpu_event_wait(type, event, stream); });
  }
  void trace_gpu_memory_allocation(DeviceType type, uintptr_t address) const override {
    forward([&](const auto& next) { next.trace_gpu_memory_allocation(type, address); });
  }
  void trace_gpu_memory_deallocation(DeviceType type, uintptr_t address) const override {
    forward([&](const auto& next) { next.trace_gpu_memory_deallocation(type, address); });
  }
  void trace_gpu_stream_creation(DeviceType type, uintptr_t stream) const override {
    forward([&](const auto& next) { next.trace_gpu_stream_creation(type, stream); });
  }
  void trace_gpu_device_synchronization(DeviceType type) const override {
    if (is_watched(type)) note_traced_sync([] { note_device_sync(); });
    forward([&](const auto& next) { next.trace_gpu_device_synchronization(type); });
  }
  void trace_gpu_stream_synchronization(DeviceType type, uintptr_t stream) const override {
    if (is_watched(type)) note_traced_sync([=] { note_stream_sync(stream); });
    forward([&](const auto& next) { next.trace_gpu_stream_synchronization(type, stream); });
  }
  void trace_gpu_event_synchronization(DeviceType type, uintptr_t event) const override {
    if (is_watched(type)) note_traced_sync([=] { note_event_sync(event); });
    forward([&](const auto& next) { next.trace_gpu_event_synchronization(type, event); });
  }

 private:
  template <class Call>
  static void forward(const Call& call) {
    if (const PyInterpreter* next = previous_trace.load(std::memory_order_acquire)) {
      call(**next);
    }
  }
};

// Never destroyed: events are deleted, and traced, after main has returned.
const PyInterpreter* our_trace() {
  static const PyInterpreter* trace =
      std::make_unique<PyInterpreter>(std::make_unique<TraceTable>().release()).release();
  return trace;
}

bool is_beneath_another = false;  // guarded by the GIL

/// Hides the op of the thread while it lives, in a callback of CUPTI.
class LeaveScopeOut {
 public:
  explicit LeaveScopeOut(ThreadState& thread) : thread_(thread), scope_(thread.scope) {
    if (cupti::heard_call() == nullptr) return;
    thread_.scope = nullptr;
    thread_.is_scope_due = scope_ != nullptr;
  }
  ~LeaveScopeOut() { thread_.scope = scope_; }
  LeaveScopeOut(const LeaveScopeOut&) = delete;
  LeaveScopeOut& operator=(const LeaveScopeOut&) = delete;

 private:
  ThreadState& thread_;
  OpScope* const scope_;
};

}  // namespace

// In a callback of CUPTI no CUDA call may be made, so the op that the thread is in is left out. If
// the record or the wait is the op's own, torch traces it right after, and all is told again with
// the op: the engine takes the newer record, and what the wait adds the first time is true.
void note_raw_record(uint64_t event, uint64_t stream) {
  const LeaveScopeOut left_out(this_thread());
  note_record(event, stream);
  this_thread().told_record = event;
}

void note_raw_wait(uint64_t event, uint64_t stream) {
  const LeaveScopeOut left_out(this_thread());
  note_wait(event, stream);
  this_thread().told_wait = event;
}

void note_raw_event_sync(uint64_t event) { note_event_sync(event); }
void note_raw_stream_sync(uint64_t stream) { note_stream_sync(stream); }
void note_raw_device_sync() { note_device_sync(); }

bool was_sync_traced() { return std::exchange(this_thread().is_sync_traced, false); }

void install_gpu_trace() {
  if (GPUTrace::get_trace() == our_trace() || is_beneath_another) return;
  previous_trace.store(GPUTrace::get_trace(), std::memory_order_release);
  GPUTrace::gpuTraceState.store(our_trace(), std::memory_order_release);
  GPUTrace::haveState = true;
}

void uninstall_gpu_trace() {
  if (GPUTrace::get_trace() != our_trace()) {
    is_beneath_another = true;
    return;
  }
  const PyInterpreter* previous = previous_trace.load(std::memory_order_acquire);
  GPUTrace::gpuTraceState.store(previous, std::memory_order_release);
  GPUTrace::haveState = previous != nullptr;
}

}  // namespace streamguard::hooks
