#include "internal_api.h"

#include <cstdio>
#include <set>
#include <string>

#include "api_log.h"
#include "export.h"
#include "fairness.h"
#include "kernel_registry.h"
#include "kernel_twins.h"
#include "program_end.h"
#include "runtime.h"

using namespace streamguard::vgpu;

namespace streamguard::vgpu {
extern thread_local int suppressed_copies;  // copy_api.cc
}

struct streamguard_vgpu_chain {
  Mark last;
};

namespace {

class ForeignStep final : public Step {
 public:
  ForeignStep(const streamguard_vgpu_step& step, const char* label) : step_(step), label_(label) {}
  ~ForeignStep() override { step_.release(step_.context); }
  ForeignStep(const ForeignStep&) = delete;
  ForeignStep& operator=(const ForeignStep&) = delete;

  Outcome run() override {
    switch (step_.run(step_.context)) {
      case 0:
        return Outcome::kDone;
      case 1:
        return Outcome::kWaiting;
      default:
        return Outcome::kStalled;
    }
  }
  Demand demand() const override { return static_cast<Demand>(step_.demand(step_.context)); }
  std::string describe() const override { return label_; }

 private:
  const streamguard_vgpu_step step_;
  const std::string label_;
};

}  // namespace

VGPU_API int* streamguard_vgpu_suppress_copies() { return &suppressed_copies; }

VGPU_API unsigned long long streamguard_vgpu_launch_count() { return launch_count(); }

VGPU_API int streamguard_vgpu_pending() {
  const Lock lock(runtime().mutex);
  return static_cast<int>(runtime().executor.pending());
}

VGPU_API int streamguard_vgpu_device_count() { return device_count(); }

VGPU_API const char* streamguard_vgpu_schedule() {
  static auto* const kTokens = new std::set<std::string>;
  const Lock lock(runtime().mutex);
  return kTokens->insert(runtime().executor.policy().token()).first->c_str();
}

VGPU_API cudaError_t streamguard_vgpu_start_schedule(const char* token) {
  std::unique_ptr<SchedulePolicy> policy = make_policy(token);
  if (policy == nullptr) return cudaErrorInvalidValue;
  return locked([&](Lock& lock) {
    if (!runtime().captures.empty()) return cudaErrorStreamCaptureUnsupported;
    log_line("start_schedule %s", token);
    if (!runtime().executor.restart(lock, std::move(policy))) return cudaErrorNotReady;
    for (const Event* event : runtime().events) const_cast<Event*>(event)->queries = 0;
    runtime().memory.forget_freed();
    return cudaSuccess;
  });
}

VGPU_API unsigned long long streamguard_vgpu_finish(long patience_ms) {
  return finish_queued_work(patience_ms);
}

VGPU_API int streamguard_vgpu_is_ending() { return is_ending() ? 1 : 0; }

VGPU_API int streamguard_vgpu_stream_count() {
  const Lock lock(runtime().mutex);
  return runtime().streams.used_count();
}

VGPU_API cudaError_t streamguard_vgpu_hold_stream(cudaStream_t handle) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    runtime().executor.hold(stream);
    return cudaSuccess;
  });
}

VGPU_API cudaError_t streamguard_vgpu_release_stream(cudaStream_t handle,
                                                     const cudaStream_t* first) {
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    Stream* const before =
        first == nullptr ? nullptr : runtime().streams.resolve(*first, current_device());
    runtime().executor.release(lock, stream, before);
    return cudaSuccess;
  });
}

VGPU_API void streamguard_vgpu_refill(void* begin, size_t bytes) {
  fill_touched_pages(static_cast<char*>(begin), bytes, MemoryMap::kFreedPattern);
}

VGPU_API unsigned long long streamguard_vgpu_rescues() { return timed_rescues(); }

VGPU_API streamguard_vgpu_chain* streamguard_vgpu_chain_create() {
  return std::make_unique<streamguard_vgpu_chain>().release();
}

VGPU_API void streamguard_vgpu_chain_destroy(streamguard_vgpu_chain* chain) {
  const std::unique_ptr<streamguard_vgpu_chain> destroyed(chain);
}

VGPU_API cudaError_t streamguard_vgpu_chain_drain(streamguard_vgpu_chain* chain) {
  return locked([&](Lock& lock) { return force_all(lock, {chain->last}); });
}

VGPU_API cudaError_t streamguard_vgpu_issue_step(cudaStream_t handle,
                                                 const streamguard_vgpu_step* foreign,
                                                 streamguard_vgpu_chain* chain, const char* label) {
  const auto step = std::make_shared<ForeignStep>(*foreign, label);
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    runtime().streams.note_use(stream);
    log_line("%s stream=%d", label, stream.index);
    std::vector<Mark> dependencies;
    if (chain != nullptr && !stream.is_capturing()) {
      dependencies.push_back(chain->last);
      chain->last = {&stream, stream.issued + 1};
    }
    return enqueue(lock, stream, cudaGraphNodeTypeHost, step, std::move(dependencies));
  });
}

VGPU_API cudaError_t streamguard_vgpu_join(cudaStream_t waiting, cudaStream_t other) {
  return with_stream(waiting, [&](Lock& lock, Stream& stream) {
    Stream* source = runtime().streams.resolve(other, current_device());
    if (source == nullptr) return cudaErrorInvalidResourceHandle;
    if (source == &stream) return cudaSuccess;
    if (!stream.is_capturing()) {
      return enqueue(lock, stream, cudaGraphNodeTypeWaitEvent, std::monostate{},
                     {{source, source->issued}});
    }
    auto& frontier = stream.capture.frontier;
    frontier.insert(frontier.end(), source->capture.frontier.begin(),
                    source->capture.frontier.end());
    return cudaSuccess;
  });
}

VGPU_API void streamguard_vgpu_add_peer_monitor(const streamguard_vgpu_peer_monitor* monitor) {
  add_peer_monitor({monitor->context, monitor->has_unmet_demand, monitor->publish_idleness,
                    monitor->end_if_deadlocked});
}

VGPU_API void streamguard_vgpu_remove_peer_monitor(void* context) { remove_peer_monitor(context); }

VGPU_API void streamguard_vgpu_set_sticky_error(cudaError_t error) { set_sticky_error(error); }

VGPU_API void streamguard_vgpu_log(const char* line) { log_line("%s", line); }

VGPU_API cudaError_t streamguard_vgpu_launch(const void* kernel, dim3 grid, dim3 block,
                                             void** arguments, cudaStream_t stream) {
  return launch(*static_cast<const Kernel*>(kernel), {grid, block, arguments}, stream);
}

VGPU_API void* streamguard_vgpu_kernel(const char* name) {
  return const_cast<Kernel*>(kernels().named(name));
}

VGPU_API const char* streamguard_vgpu_kernel_name(const void* kernel) {
  return static_cast<const Kernel*>(kernel)->name.c_str();
}

VGPU_API int streamguard_vgpu_reserve_budget(int device, size_t bytes) {
  const Lock lock(runtime().mutex);
  return runtime().memory.reserve_budget(device, bytes) ? 1 : 0;
}

VGPU_API void streamguard_vgpu_return_budget(int device, size_t bytes) {
  const Lock lock(runtime().mutex);
  runtime().memory.return_budget(device, bytes);
}

VGPU_API void streamguard_vgpu_add_memory(void* begin, size_t bytes, int device) {
  const Lock lock(runtime().mutex);
  runtime().memory.add({static_cast<char*>(begin), bytes, bytes, device, MemoryKind::kDevice});
}

VGPU_API void streamguard_vgpu_remove_memory(void* begin) {
  const Lock lock(runtime().mutex);
  runtime().memory.remove(begin);
}

VGPU_API int streamguard_vgpu_find_memory(const void* pointer, void** begin, size_t* bytes) {
  const Lock lock(runtime().mutex);
  const Allocation* allocation = runtime().memory.find(pointer);
  if (allocation == nullptr) return 0;
  *begin = allocation->begin;
  *bytes = allocation->size_bytes;
  return 1;
}

VGPU_API void streamguard_vgpu_log_unsupported(const char* function) {
  static std::mutex mutex;
  static auto* const kNamed = new std::set<std::string>;
  const std::lock_guard<std::mutex> guard(mutex);
  if (!kNamed->insert(function).second) return;
  log_line("unsupported %s", function);
  std::fprintf(stderr, "streamguard: the virtual GPU does not implement %s\n", function);
}
