#include "runtime.h"

#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "api_log.h"
#include "fairness.h"
#include "program_end.h"
#include "traced_call.h"

namespace streamguard::vgpu {
namespace {

thread_local int device_of_thread = 0;
thread_local bool thread_issues = false;
std::atomic<pid_t> made_by{0};  // process

std::unique_ptr<SchedulePolicy> policy_or_exit() {
  std::unique_ptr<SchedulePolicy> policy = make_policy(settings().schedule);
  if (policy == nullptr) {
    // A wrong schedule would prove nothing: better no run than another schedule's run.
    std::fprintf(stderr, "streamguard: STREAMGUARD_VGPU_SCHEDULE=%s is no schedule; use %s\n",
                 settings().schedule.c_str(), kScheduleForms);
    std::exit(2);
  }
  return policy;
}

const char* name_of(cudaGraphNodeType type) {
  switch (type) {
    case cudaGraphNodeTypeMemcpy:
      return "copy";
    case cudaGraphNodeTypeMemset:
      return "fill";
    case cudaGraphNodeTypeHost:
      return "host function";
    case cudaGraphNodeTypeGraph:
      return "graph launch";
    case cudaGraphNodeTypeWaitEvent:
      return "wait for an event";
    case cudaGraphNodeTypeEventRecord:
      return "event record";
    case cudaGraphNodeTypeMemFree:
      return "free";
    default:
      return "op";
  }
}

bool forbids(const Graph& capture, cudaStreamCaptureMode thread_mode) {
  if (capture.mode == cudaStreamCaptureModeRelaxed) return false;
  if (capture.capturing_thread == std::this_thread::get_id()) return true;
  return capture.mode == cudaStreamCaptureModeGlobal && thread_mode == cudaStreamCaptureModeGlobal;
}

}  // namespace

// Declared in capture_api.cc: cudaThreadExchangeStreamCaptureMode sets it.
extern thread_local cudaStreamCaptureMode thread_capture_mode;

Runtime::Runtime()
    : streams(device_count()),
      executor(streams, policy_or_exit()),
      memory(device_count(), settings().memory_bytes) {}

Runtime& runtime() {
  static Runtime* const kRuntime = [] {
    auto* const made = new Runtime;
    made_by = getpid();
    return made;
  }();
  return *kRuntime;
}

bool has_runtime() { return made_by == getpid(); }

int current_device() { return device_of_thread; }
void set_current_device(int device) { device_of_thread = device; }

void note_issuing_thread() { thread_issues = true; }
bool is_issuing_thread() { return thread_issues; }

cudaError_t refuse_call() {
  if (device_count() == 0) return cudaErrorNoDevice;
  if (in_op_body()) return cudaErrorNotPermitted;
  log_call_in_callback("locked");
  return sticky_error();
}

cudaError_t enqueue(Lock& lock, Stream& stream, cudaGraphNodeType type, Work work,
                    std::vector<Mark> dependencies, Mark* issued, const char* kernel) {
  note_issuing_thread();
  if (stream.is_capturing()) {
    Graph& graph = *stream.capture.graph;
    if (graph.is_invalidated) return cudaErrorStreamCaptureInvalidated;
    GraphNode* node = graph.add(type, std::move(work), stream.capture.frontier);
    stream.capture.frontier = {node};
    return cudaSuccess;
  }
  if (stream.kind == StreamKind::kLegacy && !runtime().captures.empty()) {
    for (const Stream* other : runtime().streams.of_device(stream.device)) {
      if (!other->is_capturing() || other->kind != StreamKind::kBlocking) continue;
      other->capture.graph->is_invalidated = true;
      return cudaErrorStreamCaptureImplicit;
    }
  }
  const Mark mark = runtime().executor.issue(lock, stream, std::move(work), std::move(dependencies),
                                             kernel != nullptr ? kernel : name_of(type));
  if (issued != nullptr) *issued = mark;
  if (!is_reached(mark)) start_fairness_worker();
  return sticky_error();
}

cudaError_t refuse_unsafe_call(Lock&) {
  if (thread_capture_mode == cudaStreamCaptureModeRelaxed) return cudaSuccess;
  cudaError_t refusal = cudaSuccess;
  for (Graph* capture : runtime().captures) {
    if (!forbids(*capture, thread_capture_mode)) continue;
    capture->is_invalidated = true;
    refusal = cudaErrorStreamCaptureUnsupported;
  }
  return refusal;
}

cudaError_t force_all(Lock& lock, const std::vector<Mark>& marks) {
  runtime().executor.force(lock, marks);
  if (has_abandoned_work() && sticky_error() == cudaSuccess) return cudaErrorCudartUnloading;
  return sticky_error();
}

}  // namespace streamguard::vgpu
