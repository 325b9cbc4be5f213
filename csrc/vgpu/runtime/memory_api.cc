// cudaMalloc and its kin.
#include <cstring>

#include "api_log.h"
#include "export.h"
#include "runtime.h"

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

}  // namespace

VGPU_API cudaError_t cudaMalloc(void** pointer, size_t size_bytes) {
  return allocate(pointer, size_bytes, MemoryKind::kDevice);
}

VGPU_API cudaError_t cudaMallocManaged(void** pointer, size_t size_bytes, unsigned) {
  return allocate(pointer, size_bytes, MemoryKind::kManaged);
}

VGPU_API cudaError_t cudaHostAlloc(void** pointer, size_t size_bytes, unsigned) {
  return allocate(pointer, size_bytes, MemoryKind::kPinned);
}

VGPU_API cudaError_t cudaMallocHost(void** pointer, size_t size_bytes) {
  return allocate(pointer, size_bytes, MemoryKind::kPinned);
}

VGPU_API cudaError_t cudaFree(void* pointer) { return release(pointer, false); }

VGPU_API cudaError_t cudaFreeHost(void* pointer) { return release(pointer, true); }

VGPU_API cudaError_t cudaHostRegister(void* pointer, size_t size_bytes, unsigned) {
  return locked([&](Lock&) {
    if (pointer == nullptr || size_bytes == 0) return cudaErrorInvalidValue;
    if (runtime().memory.find(pointer) != nullptr) return cudaErrorHostMemoryAlreadyRegistered;
    runtime().memory.add({static_cast<char*>(pointer), size_bytes, size_bytes, current_device(),
                          MemoryKind::kRegistered});
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaHostUnregister(void* pointer) {
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
