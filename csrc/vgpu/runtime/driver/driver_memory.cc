// Virtual memory management, as expandable segments use it.
#include <cuda.h>
#include <sys/mman.h>

#include <cstdint>
#include <map>
#include <mutex>

#include "../export.h"
#include "../internal_api.h"

namespace {

constexpr size_t kGranularity = size_t{2} << 20;

// Physical memory without an address. It gets pages where it is mapped, so that its contents do
// not outlive a mapping, and it can be mapped at one place at a time.
struct Physical {
  size_t bytes = 0;
  int device = 0;
  CUdeviceptr mapped_at = 0;
  bool is_released = false;
};

class PhysicalMemory {
 public:
  CUresult create(CUmemGenericAllocationHandle* handle, size_t bytes, int device) {
    if (bytes == 0 || bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
    if (streamguard_vgpu_reserve_budget(device, bytes) == 0) return CUDA_ERROR_OUT_OF_MEMORY;
    const std::lock_guard<std::mutex> guard(mutex_);
    *handle = next_handle_++;
    handles_[*handle] = {bytes, device, 0, false};
    return CUDA_SUCCESS;
  }

  CUresult release(CUmemGenericAllocationHandle handle) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.is_released) return CUDA_ERROR_INVALID_VALUE;
    found->second.is_released = true;
    forget_unused(found);
    return CUDA_SUCCESS;
  }

  CUresult map(CUdeviceptr address, size_t bytes, CUmemGenericAllocationHandle handle) {
    const std::lock_guard<std::mutex> guard(mutex_);
    const auto found = handles_.find(handle);
    if (found == handles_.end() || found->second.bytes != bytes) return CUDA_ERROR_INVALID_VALUE;
    if (found->second.mapped_at != 0) {
      streamguard_vgpu_log_unsupported("cuMemMap of one handle at two addresses");
      return CUDA_ERROR_NOT_SUPPORTED;
    }
    found->second.mapped_at = address;
    streamguard_vgpu_add_memory(reinterpret_cast<void*>(address), bytes, found->second.device);
    return CUDA_SUCCESS;
  }

  CUresult unmap(CUdeviceptr address, size_t bytes) {
    const std::lock_guard<std::mutex> guard(mutex_);
    for (auto entry = handles_.begin(); entry != handles_.end();) {
      const auto current = entry++;
      const CUdeviceptr at = current->second.mapped_at;
      if (at < address || at >= address + bytes || at == 0) continue;
      auto* memory = reinterpret_cast<void*>(at);
      streamguard_vgpu_remove_memory(memory);
      madvise(memory, current->second.bytes, MADV_DONTNEED);
      mprotect(memory, current->second.bytes, PROT_NONE);
      current->second.mapped_at = 0;
      forget_unused(current);
    }
    return CUDA_SUCCESS;
  }

 private:
  using Handles = std::map<CUmemGenericAllocationHandle, Physical>;

  void forget_unused(Handles::iterator handle) {
    if (!handle->second.is_released || handle->second.mapped_at != 0) return;
    streamguard_vgpu_return_budget(handle->second.device, handle->second.bytes);
    handles_.erase(handle);
  }

  std::mutex mutex_;
  Handles handles_;
  CUmemGenericAllocationHandle next_handle_ = 1;
};

PhysicalMemory& physical_memory() {
  static auto* const kMemory = new PhysicalMemory;
  return *kMemory;
}

}  // namespace

VGPU_API CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                                CUmemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t, CUdeviceptr,
                                      unsigned long long) {
  void* reserved =
      mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (reserved == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = reinterpret_cast<CUdeviceptr>(reserved);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  return munmap(reinterpret_cast<void*>(address), bytes) == 0 ? CUDA_SUCCESS
                                                              : CUDA_ERROR_INVALID_VALUE;
}

VGPU_API CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                              const CUmemAllocationProp* properties, unsigned long long) {
  const int device = properties->location.id;
  if (device < 0 || device >= streamguard_vgpu_device_count()) return CUDA_ERROR_INVALID_DEVICE;
  return physical_memory().create(handle, bytes, device);
}

VGPU_API CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  return physical_memory().release(handle);
}

VGPU_API CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                           CUmemGenericAllocationHandle handle, unsigned long long) {
  if (offset != 0) return CUDA_ERROR_INVALID_VALUE;
  return physical_memory().map(address, bytes, handle);
}

VGPU_API CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  return physical_memory().unmap(address, bytes);
}

VGPU_API CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                                 size_t count) {
  int protection = PROT_NONE;
  for (size_t i = 0; i < count; ++i) {
    if (access[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE) protection = PROT_READ | PROT_WRITE;
  }
  return mprotect(reinterpret_cast<void*>(address), bytes, protection) == 0
             ? CUDA_SUCCESS
             : CUDA_ERROR_INVALID_VALUE;
}
