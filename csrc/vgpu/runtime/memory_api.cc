// cudaMalloc and its kin.
#include <cstring>

#include "api_log.h"
#include "export.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

cudaError_t allocate(void** pointer, size_t size_bytes, MemoryKind kind) {
  return locked([&](Lock& lock) {
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    if (size_bytes == 0) {
      *pointer = nullptr;
      return cudaSuccess;
    }
    *pointer = runtime().memory.allocate(size_bytes, current_device(), kind);
    return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
  });
}

// cudaFree* wait for all work of the device, as the work may use the memory.
cudaError_t release(void* pointer, bool host) {
  if (pointer == nullptr) return cudaSuccess;
  return locked([&](Lock& lock) {
    if (const cudaError_t refusal = refuse_unsafe_call(lock); refusal != cudaSuccess) {
      return refusal;
    }
    const Allocation* allocation = runtime().memory.find(pointer);
    const MemoryKind wrong = host ? MemoryKind::kDevice : MemoryKind::kPinned;
    if (allocation == nullptr || allocation->begin != pointer || allocation->kind == wrong ||
        allocation->kind == MemoryKind::kRegistered) {
      return cudaErrorInvalidValue;
    }
    log_line("free %p", pointer);
    runtime().executor.force(lock, host ? runtime().executor.all_marks()
                                        : runtime().executor.device_marks(allocation->device));
    runtime().memory.release(pointer);
    return sticky_error();
  });
}

cudaMemoryType type_of(MemoryKind kind) {
  switch (kind) {
    case MemoryKind::kPageable:
      return cudaMemoryTypeUnregistered;
    case MemoryKind::kDevice:
      return cudaMemoryTypeDevice;
    case MemoryKind::kPinned:
    case MemoryKind::kRegistered:
      return cudaMemoryTypeHost;
    case MemoryKind::kManaged:
      return cudaMemoryTypeManaged;
  }
  return cudaMemoryTypeUnregistered;
}

cudaError_t register_host(void* pointer, size_t size_bytes) {
  return locked([&](Lock&) {
    if (pointer == nullptr || size_bytes == 0) return cudaErrorInvalidValue;
    if (runtime().memory.find(pointer) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
    runtime().memory.add({static_cast<char*>(pointer), size_bytes, size_bytes, current_device(),
                          MemoryKind::kRegistered});
    return cudaSuccess;
  });
}

cudaError_t unregister_host(void* pointer) {
  return locked([&](Lock& lock) {
    const Allocation* allocation = runtime().memory.find(pointer);
    if (allocation == nullptr || allocation->begin != pointer ||
        allocation->kind != MemoryKind::kRegistered) {
      return cudaErrorHostMemoryNotRegistered;
    }
    runtime().executor.force(lock, runtime().executor.all_marks());
    runtime().memory.remove(pointer);
    return cudaSuccess;
  });
}

}  // namespace

VGPU_API cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  return traced(
      {20, "cudaMalloc"}, [&] { return allocate(pointer, size_bytes, MemoryKind::kDevice); },
      pointer, size_bytes);
}

VGPU_API cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes, unsigned flags) {
  return traced(
      {206, "cudaMallocManaged"},
      [&] { return allocate(pointer, size_bytes, MemoryKind::kManaged); }, pointer, size_bytes,
      flags);
}

VGPU_API cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned flags) {
  return traced(
      {27, "cudaHostAlloc"}, [&] { return allocate(pointer, size_bytes, MemoryKind::kPinned); },
      pointer, size_bytes, flags);
}

VGPU_API cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  return traced(
      {25, "cudaMallocHost"}, [&] { return allocate(pointer, size_bytes, MemoryKind::kPinned); },
      pointer, size_bytes);
}

VGPU_API cudaError_t cudaFree(void* pointer) {
  return traced({22, "cudaFree"}, [&] { return release(pointer, false); }, pointer);
}

VGPU_API cudaError_t cudaFreeHost(void* pointer) {
  return traced({26, "cudaFreeHost"}, [&] { return release(pointer, true); }, pointer);
}

VGPU_API cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned flags) {
  return traced(
      {152, "cudaHostRegister"}, [&] { return register_host(pointer, size_bytes); }, pointer,
      size_bytes, flags);
}

VGPU_API cudaError_t cudaHostUnregister(void* pointer) {
  return traced({153, "cudaHostUnregister"}, [&] { return unregister_host(pointer); }, pointer);
}

VGPU_API cudaError_t cudaHostGetDevicePointer(void** device_pointer, void* host, unsigned) {
  return locked([&](Lock&) {
    const MemoryKind kind = runtime().memory.kind_of(host);
    if (kind != MemoryKind::kPinned && kind != MemoryKind::kRegistered) {
      return cudaErrorInvalidValue;
    }
    *device_pointer = host;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaHostGetFlags(unsigned* flags, void* host) {
  return locked([&](Lock&) {
    *flags = cudaHostAllocPortable | cudaHostAllocMapped;
    return runtime().memory.kind_of(host) == MemoryKind::kPinned ? cudaSuccess
                                                                 : cudaErrorInvalidValue;
  });
}

VGPU_API cudaError_t cudaMemGetInfo(size_t* free_bytes, size_t* total_bytes) {
  return locked([&](Lock&) {
    *free_bytes = runtime().memory.free_bytes(current_device());
    *total_bytes = runtime().memory.total_bytes();
    return cudaSuccess;
  });
}

// Allowed also in op bodies: host kernels ask it about their operands.
VGPU_API cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes,
                                              const void* pointer) {
  log_call_in_callback("cudaPointerGetAttributes");
  if (device_count() == 0) return fail(cudaErrorNoDevice);
  std::memset(attributes, 0, sizeof *attributes);
  attributes->device = cudaInvalidDeviceId;
  attributes->hostPointer = const_cast<void*>(pointer);
  const Lock lock(runtime().mutex);
  const Allocation* allocation = runtime().memory.find(pointer);
  if (allocation == nullptr) return cudaSuccess;
  attributes->type = type_of(allocation->kind);
  attributes->device = allocation->device;
  attributes->devicePointer = const_cast<void*>(pointer);
  if (allocation->kind == MemoryKind::kDevice) attributes->hostPointer = nullptr;
  return cudaSuccess;
}
