// The table through which the preloaded library tells the hooks of CUDA runtime calls. Plain C
// types only: the library is loaded into processes without Python, torch or CUDA.
#pragma once

#include <cstddef>

namespace streamguard::interposer {

/// Called on the calling thread, after the runtime has accepted the call.
struct RuntimeCalls {
  /// `kernel` is a host function, or a cudaKernel_t when `is_handle`.
  void (*launched)(const void* kernel, bool is_handle, void* stream);
  void (*copied)(void* target, const void* source, size_t bytes, void* stream, bool is_blocking);
  void (*filled)(void* target, size_t bytes, void* stream);
  void (*recorded)(void* event, void* stream);
  void (*waited)(void* stream, void* event);
  void (*event_queried)(void* event, bool is_done);
  void (*stream_queried)(void* stream, bool is_done);
  void (*event_synchronized)(void* event);
  void (*stream_synchronized)(void* stream);
  void (*device_synchronized)();
  void (*graph_launched)(void* stream);
};

}  // namespace streamguard::interposer

/// Found by dlsym. From the return on, calls go to `table`, which must stay valid; null stops them.
extern "C" void streamguard_attach_runtime(const streamguard::interposer::RuntimeCalls* table);
