// Preloaded by `streamguard run`: stands in front of the CUDA runtime that torch is linked with,
// passes every call on, and tells the hooks of it when they are there.
//
// CUDA's headers are not needed, and only the C library is: the types below have the same size and
// are passed in the same way. Programs without a CUDA runtime never call in here. A runtime that is
// linked statically, or reached by dlsym, goes around this library.
#include <atomic>

#include "interposer/next.h"
#include "interposer/runtime_calls.h"

#define INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

using streamguard::interposer::RuntimeCalls;

using Status = int;  // cudaError_t
constexpr Status kSuccess = 0;
constexpr Status kNotFound = 500;  // cudaErrorSymbolNotFound

struct Dim3 {
  unsigned int x, y, z;
};

// cudaLaunchConfig_t, as far as its stream.
struct LaunchConfiguration {
  Dim3 grid;
  Dim3 block;
  size_t shared_bytes;
  void* stream;
};

std::atomic<const RuntimeCalls*> attached{nullptr};

// A runtime may implement one call by another one of the same names: only the outermost is told.
thread_local int depth = 0;

const RuntimeCalls* listener() {
  return depth == 0 ? attached.load(std::memory_order_acquire) : nullptr;
}

// torch's runtime may be in a local scope, and is then found by its soname.
void* find_runtime(const char* name) {
  return streamguard::interposer::find_next(
      name, {"libcudart.so.13", "libcudart.so.12", "libcudart.so.11.0"});
}

template <class... Arguments>
class Next {
 public:
  explicit constexpr Next(const char* name) : next_(name, &find_runtime, kNotFound) {}

  Status operator()(Arguments... arguments) { return next_(depth, arguments...); }

 private:
  streamguard::interposer::Next<Arguments...> next_;
};

}  // namespace

INTERPOSED void streamguard_attach_runtime(const RuntimeCalls* table) {
  attached.store(table, std::memory_order_release);
}

INTERPOSED Status cudaLaunchKernel(const void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                   size_t shared_bytes, void* stream) {
  static Next<const void*, Dim3, Dim3, void**, size_t, void*> next("cudaLaunchKernel");
  const Status status = next(kernel, grid, block, arguments, shared_bytes, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->launched(kernel, false, stream);
  return status;
}

// What nvcc's launch stubs call from CUDA 13 on.
INTERPOSED Status __cudaLaunchKernel(void* kernel, Dim3 grid, Dim3 block, void** arguments,
                                     size_t shared_bytes, void* stream) {
  static Next<void*, Dim3, Dim3, void**, size_t, void*> next("__cudaLaunchKernel");
  const Status status = next(kernel, grid, block, arguments, shared_bytes, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->launched(kernel, true, stream);
  return status;
}

INTERPOSED Status cudaLaunchKernelExC(const LaunchConfiguration* configuration, const void* kernel,
                                      void** arguments) {
  static Next<const LaunchConfiguration*, const void*, void**> next("cudaLaunchKernelExC");
  const Status status = next(configuration, kernel, arguments);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->launched(kernel, false, configuration->stream);
  return status;
}

INTERPOSED Status cudaMemcpy(void* target, const void* source, size_t bytes, int kind) {
  static Next<void*, const void*, size_t, int> next("cudaMemcpy");
  const Status status = next(target, source, bytes, kind);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->copied(target, source, bytes, nullptr, true);
  return status;
}

INTERPOSED Status cudaMemcpyAsync(void* target, const void* source, size_t bytes, int kind,
                                  void* stream) {
  static Next<void*, const void*, size_t, int, void*> next("cudaMemcpyAsync");
  const Status status = next(target, source, bytes, kind, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->copied(target, source, bytes, stream, false);
  return status;
}

INTERPOSED Status cudaMemcpyPeerAsync(void* target, int target_device, const void* source,
                                      int source_device, size_t bytes, void* stream) {
  static Next<void*, int, const void*, int, size_t, void*> next("cudaMemcpyPeerAsync");
  const Status status = next(target, target_device, source, source_device, bytes, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->copied(target, source, bytes, stream, false);
  return status;
}

INTERPOSED Status cudaMemset(void* target, int value, size_t bytes) {
  static Next<void*, int, size_t> next("cudaMemset");
  const Status status = next(target, value, bytes);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->filled(target, bytes, nullptr);
  return status;
}

INTERPOSED Status cudaMemsetAsync(void* target, int value, size_t bytes, void* stream) {
  static Next<void*, int, size_t, void*> next("cudaMemsetAsync");
  const Status status = next(target, value, bytes, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->filled(target, bytes, stream);
  return status;
}

INTERPOSED Status cudaEventRecord(void* event, void* stream) {
  static Next<void*, void*> next("cudaEventRecord");
  const Status status = next(event, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->recorded(event, stream);
  return status;
}

INTERPOSED Status cudaEventRecordWithFlags(void* event, void* stream, unsigned int flags) {
  static Next<void*, void*, unsigned int> next("cudaEventRecordWithFlags");
  const Status status = next(event, stream, flags);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->recorded(event, stream);
  return status;
}

INTERPOSED Status cudaStreamWaitEvent(void* stream, void* event, unsigned int flags) {
  static Next<void*, void*, unsigned int> next("cudaStreamWaitEvent");
  const Status status = next(stream, event, flags);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->waited(stream, event);
  return status;
}

INTERPOSED Status cudaEventQuery(void* event) {
  static Next<void*> next("cudaEventQuery");
  const Status status = next(event);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr) hooks->event_queried(event, status == kSuccess);
  return status;
}

INTERPOSED Status cudaStreamQuery(void* stream) {
  static Next<void*> next("cudaStreamQuery");
  const Status status = next(stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr) hooks->stream_queried(stream, status == kSuccess);
  return status;
}

INTERPOSED Status cudaEventSynchronize(void* event) {
  static Next<void*> next("cudaEventSynchronize");
  const Status status = next(event);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->event_synchronized(event);
  return status;
}

INTERPOSED Status cudaStreamSynchronize(void* stream) {
  static Next<void*> next("cudaStreamSynchronize");
  const Status status = next(stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->stream_synchronized(stream);
  return status;
}

INTERPOSED Status cudaDeviceSynchronize() {
  static Next<> next("cudaDeviceSynchronize");
  const Status status = next();
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->device_synchronized();
  return status;
}

INTERPOSED Status cudaGraphLaunch(void* executable, void* stream) {
  static Next<void*, void*> next("cudaGraphLaunch");
  const Status status = next(executable, stream);
  const RuntimeCalls* hooks = listener();
  if (hooks != nullptr && status == kSuccess) hooks->graph_launched(stream);
  return status;
}
