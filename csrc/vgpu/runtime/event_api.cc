// cudaEvent*.
#include "api_log.h"
#include "export.h"
#include "program_end.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

constexpr int kQueriesBeforeForce = 32;  // as for streams
constexpr unsigned kKnownFlags =
    cudaEventBlockingSync | cudaEventDisableTiming | cudaEventInterprocess;

template <class Body>
cudaError_t with_event(cudaEvent_t handle, Body body) {
  return locked([&](Lock& lock) {
    auto* event = reinterpret_cast<Event*>(handle);
    if (runtime().events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    return body(lock, *event);
  });
}

cudaError_t create(cudaEvent_t* result, unsigned flags) {
  return locked([&](Lock&) {
    if ((flags & ~kKnownFlags) != 0) return cudaErrorInvalidValue;
    auto event = std::make_unique<Event>();
    event->device = current_device();
    event->flags = flags;
    runtime().events.insert(event.get());
    *result = reinterpret_cast<cudaEvent_t>(event.release());
    return cudaSuccess;
  });
}

cudaError_t record(Lock& lock, Event& event, Stream& stream, unsigned flags) {
  if (event.device != stream.device) return cudaErrorInvalidResourceHandle;
  runtime().streams.note_use(stream);
  log_line("record stream=%d event=%p", stream.index, static_cast<void*>(&event));
  if (stream.is_capturing()) {
    Graph& graph = *stream.capture.graph;
    if (graph.is_invalidated) return cudaErrorStreamCaptureInvalidated;
    if ((flags & cudaEventRecordExternal) != 0) {
      graph.external_records.push_back(&event);
      return cudaSuccess;
    }
    event.captured_by = stream.capture.graph;
    event.captured_frontier = stream.capture.frontier;
    return cudaSuccess;
  }
  event.captured_by = nullptr;
  event.captured_frontier.clear();
  event.queries = 0;
  auto newest = std::make_shared<EventRecord>();
  // The mark must be known before the op can complete: it is the next position of the stream.
  newest->mark = {&stream, stream.issued + 1};
  event.latest = newest;
  return enqueue(lock, stream, cudaGraphNodeTypeEventRecord, CompleteRecord{newest});
}

bool is_complete(const Event& event) {
  return event.latest == nullptr || is_reached(event.latest->mark) || has_abandoned_work();
}

cudaError_t destroy(cudaEvent_t handle) {
  return with_event(handle, [](Lock&, Event& event) {
    runtime().events.erase(&event);
    const std::unique_ptr<Event> destroyed(&event);
    return cudaSuccess;
  });
}

cudaError_t record_call(cudaEvent_t handle, cudaStream_t stream_handle, unsigned flags) {
  return with_event(handle, [&](Lock& lock, Event& event) {
    Stream* stream = runtime().streams.resolve(stream_handle, current_device());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    return record(lock, event, *stream, flags);
  });
}

cudaError_t query(cudaEvent_t handle) {
  return with_event(handle, [](Lock& lock, Event& event) {
    if (event.captured_by != nullptr) return cudaErrorCapturedEvent;
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    Executor& executor = runtime().executor;
    executor.continue_wanted(lock);
    if (!is_complete(event) && is_issuing_thread()) {
      executor.note_activity();
      if (++event.queries >= kQueriesBeforeForce) {
        event.queries = 0;
        const std::vector<Mark> marks{event.latest->mark};
        executor.advance(lock, marks);
      }
    }
    const bool done = is_complete(event);
    log_line("event_query event=%p %s", static_cast<void*>(&event), done ? "done" : "notready");
    return done ? sticky_error() : cudaErrorNotReady;
  });
}

cudaError_t synchronize(cudaEvent_t handle) {
  return with_event(handle, [](Lock& lock, Event& event) {
    if (event.captured_by != nullptr) return cudaErrorCapturedEvent;
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    log_line("event_sync event=%p", static_cast<void*>(&event));
    if (event.latest == nullptr) return cudaSuccess;
    return force_all(lock, {event.latest->mark});
  });
}

}  // namespace

VGPU_API cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return traced({133, "cudaEventCreate"}, [&] { return create(event, 0); }, event);
}

VGPU_API cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  return traced(
      {134, "cudaEventCreateWithFlags"}, [&] { return create(event, flags); }, event, flags);
}

VGPU_API cudaError_t cudaEventDestroy(cudaEvent_t handle) {
  return traced({136, "cudaEventDestroy"}, [&] { return destroy(handle); }, handle);
}

VGPU_API cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream,
                                              unsigned flags) {
  return traced(
      {370, "cudaEventRecordWithFlags"}, [&] { return record_call(event, stream, flags); }, event,
      stream, flags);
}

VGPU_API cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  return traced(
      {135, "cudaEventRecord"}, [&] { return record_call(event, stream, 0); }, event, stream);
}

VGPU_API cudaError_t cudaEventQuery(cudaEvent_t event) {
  return traced({138, "cudaEventQuery"}, [&] { return query(event); }, event);
}

VGPU_API cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  return traced({137, "cudaEventSynchronize"}, [&] { return synchronize(event); }, event);
}

VGPU_API cudaError_t cudaEventElapsedTime(float* elapsed_ms, cudaEvent_t start_handle,
                                          cudaEvent_t end_handle) {
  return with_event(start_handle, [&](Lock&, Event& start) {
    auto* end = reinterpret_cast<Event*>(end_handle);
    if (runtime().events.count(end) == 0) return cudaErrorInvalidResourceHandle;
    if (((start.flags | end->flags) & cudaEventDisableTiming) != 0 || start.latest == nullptr ||
        end->latest == nullptr) {
      return cudaErrorInvalidResourceHandle;
    }
    if (!is_complete(start) || !is_complete(*end)) return cudaErrorNotReady;
    *elapsed_ms = static_cast<float>(end->latest->completed_ms - start.latest->completed_ms);
    return cudaSuccess;
  });
}
