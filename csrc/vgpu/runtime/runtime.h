// The process's virtual GPU: one object behind every library of csrc/vgpu/runtime.
#ifndef STREAMGUARD_VGPU_RUNTIME_RUNTIME_H_
#define STREAMGUARD_VGPU_RUNTIME_RUNTIME_H_

#include <unordered_map>
#include <unordered_set>

#include "errors.h"
#include "event.h"
#include "executor.h"
#include "graph.h"
#include "memory_map.h"
#include "settings.h"

namespace streamguard::vgpu {

// Lives until the process ends: other threads may still call while it exits.
struct Runtime {
  Runtime();

  std::mutex mutex;
  StreamRegistry streams;
  Executor executor;
  MemoryMap memory;
  std::unordered_set<const Event*> events;
  std::unordered_map<const Graph*, std::shared_ptr<Graph>> graphs;
  std::unordered_map<const GraphExec*, std::shared_ptr<GraphExec>> executables;
  std::vector<Graph*> captures;  // under way
  uint64_t next_capture_id = 1;
};

Runtime& runtime();
// Whether a call of this process has made it. A forked child inherits its parent's: no thread runs
// there, and the mutex may stay locked for ever.
bool has_runtime();

int current_device();
void set_current_device(int device);

// Remembers that the calling thread issues work. Threads that never do (watchdogs) only look:
// their queries force nothing.
void note_issuing_thread();
bool is_issuing_thread();

// Why no call can be served now: no device, a dead device, or a call from an op's body.
cudaError_t refuse_call();

// Adds work to a stream or, while it captures, to its graph. `kernel`: a kernel's name, which
// lives for ever.
cudaError_t enqueue(Lock& lock, Stream& stream, cudaGraphNodeType type, Work work,
                    std::vector<Mark> dependencies = {}, Mark* issued = nullptr,
                    const char* kernel = nullptr);

// cudaErrorStreamCaptureUnsupported when a capture forbids this thread calls that may synchronise;
// such captures become invalid.
cudaError_t refuse_unsafe_call(Lock& lock);

// A host wait; answers with the sticky error when the wait ended in one.
cudaError_t force_all(Lock& lock, const std::vector<Mark>& marks);

template <class Body>
cudaError_t locked(Body body) {
  if (const cudaError_t refusal = refuse_call(); refusal != cudaSuccess) return fail(refusal);
  Lock lock(runtime().mutex);
  return fail(body(lock));
}

template <class Body>
cudaError_t with_stream(cudaStream_t handle, Body body) {
  return locked([&](Lock& lock) {
    Stream* stream = runtime().streams.resolve(handle, current_device());
    return stream == nullptr ? cudaErrorInvalidResourceHandle : body(lock, *stream);
  });
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_RUNTIME_H_
