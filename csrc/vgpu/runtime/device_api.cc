// cudaDevice*: what the virtual devices say about themselves.
#include <cstdio>
#include <cstring>
#include <mutex>
#include <set>
#include <utility>

#include "api_log.h"
#include "device_identity.h"
#include "export.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

// What one simulated multiprocessor offers: the numbers of compute capability 9.0.
constexpr int kMultiprocessors = 4;
constexpr int kThreadsPerBlock = 1024;
constexpr int kThreadsPerMultiprocessor = 2048;
constexpr int kSharedPerBlock = 48 << 10;
constexpr int kSharedPerBlockOptin = 227 << 10;
constexpr int kSharedPerMultiprocessor = 228 << 10;
constexpr int kRegisters = 65536;
constexpr int kCacheBytes = 50 << 20;
constexpr int kGridX = 2147483647;
constexpr int kGridYZ = 65535;
constexpr int kLowestPriority = 0;
constexpr int kHighestPriority = -5;

// Pairs (device, peer) for which peer access is enabled.
struct EnabledPeers {
  std::mutex mutex;
  std::set<std::pair<int, int>> pairs;
};
EnabledPeers& enabled_peers() {
  static auto* const kEnabled = new EnabledPeers;
  return *kEnabled;
}

void fill_limits(cudaDeviceProp& properties) {
  properties.multiProcessorCount = kMultiprocessors;
  properties.warpSize = 32;
  properties.maxThreadsPerBlock = kThreadsPerBlock;
  properties.maxThreadsPerMultiProcessor = kThreadsPerMultiprocessor;
  properties.maxBlocksPerMultiProcessor = 32;
  properties.maxThreadsDim[0] = properties.maxThreadsDim[1] = kThreadsPerBlock;
  properties.maxThreadsDim[2] = 64;
  properties.maxGridSize[0] = kGridX;
  properties.maxGridSize[1] = properties.maxGridSize[2] = kGridYZ;
  properties.sharedMemPerBlock = kSharedPerBlock;
  properties.sharedMemPerBlockOptin = kSharedPerBlockOptin;
  properties.sharedMemPerMultiprocessor = kSharedPerMultiprocessor;
  properties.reservedSharedMemPerBlock = 1024;
  properties.regsPerBlock = properties.regsPerMultiprocessor = kRegisters;
  properties.l2CacheSize = kCacheBytes;
  properties.totalConstMem = 65536;
  properties.memPitch = kGridX;
  properties.textureAlignment = 512;
  properties.texturePitchAlignment = 32;
  properties.memoryBusWidth = 5120;
}

void fill_abilities(cudaDeviceProp& properties) {
  properties.asyncEngineCount = 3;
  properties.concurrentKernels = 1;
  properties.unifiedAddressing = 1;
  properties.managedMemory = 1;
  properties.concurrentManagedAccess = 1;
  properties.canMapHostMemory = 1;
  properties.canUseHostPointerForRegisteredMem = 1;
  properties.hostRegisterSupported = 1;
  properties.memoryPoolsSupported = 1;
  properties.streamPrioritiesSupported = 1;
  properties.cooperativeLaunch = 1;
  properties.globalL1CacheSupported = properties.localL1CacheSupported = 1;
}

int attribute_of(cudaDeviceAttr attribute, const cudaDeviceProp& p, int device) {
  switch (static_cast<int>(attribute)) {
    case cudaDevAttrMaxThreadsPerBlock:
      return p.maxThreadsPerBlock;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY:
      return p.maxThreadsDim[0];
    case cudaDevAttrMaxBlockDimZ:
      return p.maxThreadsDim[2];
    case cudaDevAttrMaxGridDimX:
      return p.maxGridSize[0];
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ:
      return p.maxGridSize[1];
    case cudaDevAttrMaxSharedMemoryPerBlock:
      return kSharedPerBlock;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      return kSharedPerBlockOptin;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      return kSharedPerMultiprocessor;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      return 1024;
    case cudaDevAttrTotalConstantMemory:
      return 65536;
    case cudaDevAttrWarpSize:
      return p.warpSize;
    case cudaDevAttrMaxPitch:
      return kGridX;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor:
      return kRegisters;
    case cudaDevAttrClockRate:
      return 1000000;
    case cudaDevAttrMemoryClockRate:
      return 1000000;
    case cudaDevAttrGlobalMemoryBusWidth:
      return p.memoryBusWidth;
    case cudaDevAttrTextureAlignment:
      return 512;
    case cudaDevAttrTexturePitchAlignment:
      return 32;
    case cudaDevAttrMultiProcessorCount:
      return kMultiprocessors;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      return kThreadsPerMultiprocessor;
    case cudaDevAttrMaxBlocksPerMultiprocessor:
      return 32;
    case cudaDevAttrL2CacheSize:
      return kCacheBytes;
    case cudaDevAttrAsyncEngineCount:
      return 3;
    case cudaDevAttrPciBusId:
      return pci_bus_of(device);
    case cudaDevAttrComputeCapabilityMajor:
      return kComputeMajor;
    case cudaDevAttrComputeCapabilityMinor:
      return kComputeMinor;
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrStreamPrioritiesSupported:
    case cudaDevAttrGlobalL1CacheSupported:
    case cudaDevAttrLocalL1CacheSupported:
    case cudaDevAttrCooperativeLaunch:
    case cudaDevAttrHostRegisterSupported:
    case cudaDevAttrCanUseHostPointerForRegisteredMem:
    case cudaDevAttrMemoryPoolsSupported:
      return 1;
    // The driver's number for virtual memory management; the runtime has no name for it.
    case kVirtualMemoryAttribute:
      return 1;
    default:
      return 0;
  }
}

cudaDeviceProp properties_of(int device) {
  cudaDeviceProp properties;
  std::memset(&properties, 0, sizeof properties);
  std::snprintf(properties.name, sizeof properties.name, "%s", kDeviceName);
  const DeviceUuid uuid = uuid_of(device);
  std::memcpy(properties.uuid.bytes, uuid.bytes, sizeof uuid.bytes);
  properties.major = kComputeMajor;
  properties.minor = kComputeMinor;
  properties.totalGlobalMem = settings().memory_bytes;
  properties.pciBusID = pci_bus_of(device);
  fill_limits(properties);
  fill_abilities(properties);
  return properties;
}

}  // namespace

VGPU_API cudaError_t cudaGetDeviceCount(int* count) {
  *count = device_count();
  return *count > 0 ? cudaSuccess : fail(cudaErrorNoDevice);
}

VGPU_API cudaError_t cudaGetDevice(int* device) {
  log_call_in_callback("cudaGetDevice");
  *device = current_device();
  return cudaSuccess;
}

VGPU_API cudaError_t cudaSetDevice(int device) {
  log_call_in_callback("cudaSetDevice");
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  set_current_device(device);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaInitDevice(int device, unsigned, unsigned) {
  return is_device(device) ? cudaSuccess : fail(cudaErrorInvalidDevice);
}

VGPU_API cudaError_t cudaSetDeviceFlags(unsigned) { return cudaSuccess; }

VGPU_API cudaError_t cudaGetDeviceFlags(unsigned* flags) {
  *flags = 0;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDriverGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGetDeviceProperties(cudaDeviceProp* properties, int device) {
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  *properties = properties_of(device);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int device) {
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  *value = attribute_of(attribute, properties_of(device), device);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetPCIBusId(char* text, int length, int device) {
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  std::snprintf(text, static_cast<size_t>(length), "0000:%02X:00.0", pci_bus_of(device));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetByPCIBusId(int* device, const char* text) {
  for (int candidate = 0; candidate < device_count(); ++candidate) {
    unsigned bus = 0;
    if (std::sscanf(text, "%*x:%x:", &bus) == 1 && pci_bus_of(candidate) == static_cast<int>(bus)) {
      *device = candidate;
      return cudaSuccess;
    }
  }
  return fail(cudaErrorInvalidDevice);
}

VGPU_API cudaError_t cudaDeviceCanAccessPeer(int* can_access, int device, int peer) {
  if (!is_device(device) || !is_device(peer)) return fail(cudaErrorInvalidDevice);
  *can_access = device != peer ? 1 : 0;
  return cudaSuccess;
}

// Copies between devices always work; what is kept is only what the two calls answer.
VGPU_API cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned) {
  if (!is_device(peer) || peer == current_device()) return fail(cudaErrorInvalidDevice);
  EnabledPeers& enabled = enabled_peers();
  const std::lock_guard<std::mutex> guard(enabled.mutex);
  const bool is_new = enabled.pairs.insert({current_device(), peer}).second;
  return is_new ? cudaSuccess : fail(cudaErrorPeerAccessAlreadyEnabled);
}

VGPU_API cudaError_t cudaDeviceDisablePeerAccess(int peer) {
  if (!is_device(peer)) return fail(cudaErrorInvalidDevice);
  EnabledPeers& enabled = enabled_peers();
  const std::lock_guard<std::mutex> guard(enabled.mutex);
  const bool was_enabled = enabled.pairs.erase({current_device(), peer}) != 0;
  return was_enabled ? cudaSuccess : fail(cudaErrorPeerAccessNotEnabled);
}

VGPU_API cudaError_t cudaDeviceGetStreamPriorityRange(int* lowest, int* highest) {
  *lowest = kLowestPriority;
  *highest = kHighestPriority;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetLimit(size_t* value, cudaLimit) {
  *value = size_t{8} << 20;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceSetLimit(cudaLimit, size_t) { return cudaSuccess; }

VGPU_API cudaError_t cudaDeviceSynchronize() {
  return traced({165, "cudaDeviceSynchronize"}, [] {
    return locked([](Lock& lock) {
      if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
        return refusal;
      }
      log_line("device_sync device=%d", current_device());
      return force_all(lock, runtime().executor.device_marks(current_device()));
    });
  });
}

VGPU_API cudaError_t cudaProfilerStart() { return cudaSuccess; }
VGPU_API cudaError_t cudaProfilerStop() { return cudaSuccess; }
