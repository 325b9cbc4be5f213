// How CUPTI lays out the arguments of the calls we hear of. Trailing members that nobody reads are
// left out.
#pragma once

#include <cstddef>
#include <cstdint>

namespace streamguard::cupti {

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

/// cudaLaunchKernel. CUPTI's headers have no structure for __cudaLaunchKernel, whose arguments are
/// of the same kinds: of that one only `kernel` is read, and never followed.
struct LaunchParameters {
  const void* kernel;
  Dim3 grid;
  Dim3 block;
  void** arguments;
  size_t shared_bytes;
  void* stream;
};

/// cudaLaunchKernelExC.
struct LaunchExParameters {
  const LaunchConfiguration* configuration;
  const void* kernel;
};

/// cudaMemcpy, cudaMemcpyAsync; the first has no stream.
struct CopyParameters {
  void* target;
  const void* source;
  size_t bytes;
  int kind;
  void* stream;
};

/// cudaMemcpyPeerAsync.
struct PeerCopyParameters {
  void* target;
  int target_device;
  const void* source;
  int source_device;
  size_t bytes;
  void* stream;
};

/// cudaMemset, cudaMemsetAsync; the first has no stream.
struct FillParameters {
  void* target;
  int value;
  size_t bytes;
  void* stream;
};

/// cudaEventRecord, cudaEventRecordWithFlags.
struct RecordParameters {
  void* event;
  void* stream;
};

/// cudaStreamWaitEvent.
struct WaitParameters {
  void* stream;
  void* event;
};

/// Calls with one handle or address.
struct HandleParameters {
  void* handle;
};

/// cudaGraphLaunch.
struct GraphLaunchParameters {
  void* executable;
  void* stream;
};

/// cudaStreamCreate, ...WithFlags, ...WithPriority; the first has no flags.
struct StreamCreationParameters {
  void** stream;
  unsigned int flags;
};

/// cudaMalloc, cudaMallocHost, cudaHostAlloc, cudaMallocManaged, cudaMallocAsync and
/// cudaMallocFromPoolAsync.
struct AllocationParameters {
  void** memory;
  size_t bytes;
};

/// cudaHostRegister.
struct RegistrationParameters {
  void* memory;
  size_t bytes;
};

}  // namespace streamguard::cupti
