// cudaStream*: creation, waits, queries, host functions.
#include "api_log.h"
#include "export.h"
#include "program_end.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

// Unsuccessful queries of one stream position before a query forces it: loops that poll must end.
constexpr int kQueriesBeforeForce = 32;

// cudaStreamAddCallback's function has another signature than a host function.
class CallbackStep final : public Step {
 public:
  CallbackStep(cudaStream_t stream, cudaStreamCallback_t function, void* argument)
      : stream_(stream), function_(function), argument_(argument) {}
  Outcome run() override {
    function_(stream_, cudaSuccess, argument_);
    return Outcome::kDone;
  }
  std::string describe() const override { return "stream callback"; }

 private:
  const cudaStream_t stream_;
  const cudaStreamCallback_t function_;
  void* const argument_;
};

cudaError_t create(cudaStream_t* result, unsigned flags, int priority) {
  return locked([&](Lock&) {
    if ((flags & ~static_cast<unsigned>(cudaStreamNonBlocking)) != 0) return cudaErrorInvalidValue;
    const StreamKind kind =
        (flags & cudaStreamNonBlocking) != 0 ? StreamKind::kNonBlocking : StreamKind::kBlocking;
    Stream* stream = runtime().streams.create(current_device(), kind, priority);
    *result = reinterpret_cast<cudaStream_t>(stream);
    if (log_enabled()) {
      log_line("stream_create handle=%p device=%d kind=%s priority=%d", static_cast<void*>(stream),
               stream->device, kind == StreamKind::kNonBlocking ? "nonblocking" : "blocking",
               priority);
    }
    return cudaSuccess;
  });
}

cudaError_t join_capture(Stream& stream, const Event& event) {
  if (!stream.is_capturing()) {
    stream.capture = {event.captured_by, {}, false};
  } else if (stream.capture.graph != event.captured_by) {
    return cudaErrorStreamCaptureMerge;
  }
  for (GraphNode* node : event.captured_frontier) {
    auto& frontier = stream.capture.frontier;
    bool known = false;
    for (const GraphNode* other : frontier) known = known || other == node;
    if (!known) frontier.push_back(node);
  }
  return cudaSuccess;
}

cudaError_t synchronize(cudaStream_t handle) {
  return with_stream(handle, [](Lock& lock, Stream& stream) {
    if (stream.is_capturing()) {
      stream.capture.graph->is_invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    log_line("stream_sync stream=%d", stream.index);
    return force_all(lock, runtime().executor.tail_marks(stream));
  });
}

cudaError_t query(cudaStream_t handle) {
  return with_stream(handle, [](Lock& lock, Stream& stream) {
    if (stream.is_capturing()) {
      stream.capture.graph->is_invalidated = true;
      return cudaErrorStreamCaptureUnsupported;
    }
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    Executor& executor = runtime().executor;
    executor.continue_wanted(lock);
    const std::vector<Mark> marks = executor.tail_marks(stream);
    if (!marks.empty() && is_issuing_thread()) {
      executor.note_activity();
      if (++stream.queries >= kQueriesBeforeForce) {
        stream.queries = 0;
        executor.advance(lock, marks);
      }
    }
    const bool done = executor.tail_marks(stream).empty() || has_abandoned_work();
    if (done) stream.queries = 0;
    log_line("stream_query stream=%d %s", stream.index, done ? "done" : "notready");
    return done ? sticky_error() : cudaErrorNotReady;
  });
}

cudaError_t destroy(cudaStream_t handle) {
  if (handle == nullptr || handle == cudaStreamLegacy || handle == cudaStreamPerThread) {
    return fail(cudaErrorInvalidResourceHandle);
  }
  return with_stream(handle, [](Lock&, Stream& stream) {
    runtime().streams.destroy(&stream);
    return cudaSuccess;
  });
}

cudaError_t wait(cudaStream_t handle, cudaEvent_t event_handle, unsigned flags) {
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    auto* event = reinterpret_cast<Event*>(event_handle);
    if (runtime().events.count(event) == 0) return cudaErrorInvalidResourceHandle;
    runtime().streams.note_use(stream);
    log_line("wait stream=%d event=%p", stream.index, static_cast<void*>(event));
    if (stream.is_capturing() && (flags & cudaEventWaitExternal) != 0) {
      stream.capture.graph->external_waits.push_back(event);
      return cudaSuccess;
    }
    if (event->captured_by != nullptr) return join_capture(stream, *event);
    if (stream.is_capturing()) return cudaErrorStreamCaptureIsolation;
    // A wait takes the newest record issued before it; without one it is no op.
    if (event->latest == nullptr) return cudaSuccess;
    return enqueue(lock, stream, cudaGraphNodeTypeWaitEvent, std::monostate{},
                   {event->latest->mark});
  });
}

cudaError_t launch_host_function(cudaStream_t handle, cudaHostFn_t function, void* argument) {
  if (function == nullptr) return fail(cudaErrorInvalidValue);
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    runtime().streams.note_use(stream);
    log_line("host_function stream=%d", stream.index);
    return enqueue(lock, stream, cudaGraphNodeTypeHost, HostCall{function, argument});
  });
}

}  // namespace

VGPU_API cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  return traced({129, "cudaStreamCreate"}, [&] { return create(stream, 0, 0); }, stream);
}

VGPU_API cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return traced(
      {198, "cudaStreamCreateWithFlags"}, [&] { return create(stream, flags, 0); }, stream, flags);
}

VGPU_API cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags,
                                                  int priority) {
  return traced(
      {202, "cudaStreamCreateWithPriority"}, [&] { return create(stream, flags, priority); },
      stream, flags, priority);
}

VGPU_API cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  return traced({201, "cudaStreamDestroy"}, [&] { return destroy(stream); }, stream);
}

VGPU_API cudaError_t cudaStreamGetPriority(cudaStream_t handle, int* priority) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *priority = stream.priority;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamGetFlags(cudaStream_t handle, unsigned* flags) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *flags = stream.kind == StreamKind::kNonBlocking ? cudaStreamNonBlocking : cudaStreamDefault;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamGetId(cudaStream_t handle, unsigned long long* id) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *id = stream.id;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamGetDevice(cudaStream_t handle, int* device) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *device = stream.device;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  return traced({131, "cudaStreamSynchronize"}, [&] { return synchronize(stream); }, stream);
}

VGPU_API cudaError_t cudaStreamQuery(cudaStream_t stream) {
  return traced({132, "cudaStreamQuery"}, [&] { return query(stream); }, stream);
}

VGPU_API cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  return traced(
      {147, "cudaStreamWaitEvent"}, [&] { return wait(stream, event, flags); }, stream, event,
      flags);
}

VGPU_API cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function,
                                        void* argument) {
  return traced(
      {284, "cudaLaunchHostFunc"}, [&] { return launch_host_function(stream, function, argument); },
      stream, function, argument);
}

VGPU_API cudaError_t cudaStreamAddCallback(cudaStream_t handle, cudaStreamCallback_t function,
                                           void* argument, unsigned flags) {
  if (function == nullptr || flags != 0) return fail(cudaErrorInvalidValue);
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    if (stream.is_capturing()) return cudaErrorStreamCaptureUnsupported;
    runtime().streams.note_use(stream);
    log_line("callback stream=%d", stream.index);
    return enqueue(lock, stream, cudaGraphNodeTypeHost,
                   std::make_shared<CallbackStep>(handle, function, argument));
  });
}
