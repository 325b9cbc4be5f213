// cudaMallocAsync and memory pools.
#include "api_log.h"
#include "export.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

// A pool has no memory of its own here: a block lives from the allocation call to the execution
// of the free.
struct Pool {
  int device = 0;
  uint64_t release_threshold = 0;
};

Pool& default_pool(int device) {
  static auto* const kPools = [] {
    auto* pools = new std::vector<Pool>(static_cast<size_t>(device_count()));
    for (int i = 0; i < device_count(); ++i) (*pools)[static_cast<size_t>(i)].device = i;
    return pools;
  }();
  return (*kPools)[static_cast<size_t>(device)];
}

class FreeStep final : public Step {
 public:
  explicit FreeStep(void* pointer) : pointer_(pointer) {}
  Outcome run() override {
    const Lock lock(runtime().mutex);
    runtime().memory.release(pointer_);
    return Outcome::kDone;
  }
  std::string describe() const override { return "free"; }

 private:
  void* const pointer_;
};

cudaError_t allocate_on(Stream& stream, void** pointer, size_t size_bytes, int device) {
  // Captured allocations have one address for all launches of the graph, as CUDA has it.
  runtime().streams.note_use(stream);
  *pointer =
      runtime().memory.allocate(size_bytes == 0 ? 1 : size_bytes, device, MemoryKind::kDevice);
  log_line("malloc_async stream=%d pointer=%p bytes=%zu", stream.index, *pointer, size_bytes);
  return *pointer == nullptr ? cudaErrorMemoryAllocation : cudaSuccess;
}

cudaError_t allocate_call(void** pointer, size_t size_bytes, cudaStream_t handle) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    return allocate_on(stream, pointer, size_bytes, stream.device);
  });
}

cudaError_t allocate_from_pool(void** pointer, size_t size_bytes, cudaMemPool_t pool,
                               cudaStream_t handle) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    return allocate_on(stream, pointer, size_bytes, reinterpret_cast<Pool*>(pool)->device);
  });
}

cudaError_t free_on(void* pointer, cudaStream_t handle) {
  if (pointer == nullptr) return cudaSuccess;
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    const Allocation* allocation = runtime().memory.find(pointer);
    if (allocation == nullptr || allocation->begin != pointer ||
        allocation->kind != MemoryKind::kDevice) {
      return cudaErrorInvalidValue;
    }
    // A captured free must leave the memory to the next launch: it stays until the process ends.
    if (stream.is_capturing()) {
      return enqueue(lock, stream, cudaGraphNodeTypeMemFree, std::monostate{});
    }
    runtime().streams.note_use(stream);
    log_line("free_async stream=%d pointer=%p", stream.index, pointer);
    return enqueue(lock, stream, cudaGraphNodeTypeMemFree, std::make_shared<FreeStep>(pointer));
  });
}

}  // namespace

VGPU_API cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device) {
  if (!is_device(device)) return fail(cudaErrorInvalidDevice);
  *pool = reinterpret_cast<cudaMemPool_t>(&default_pool(device));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceGetMemPool(cudaMemPool_t* pool, int device) {
  return cudaDeviceGetDefaultMemPool(pool, device);
}

VGPU_API cudaError_t cudaMallocAsync(void** pointer, size_t size_bytes, cudaStream_t stream) {
  return traced(
      {373, "cudaMallocAsync"}, [&] { return allocate_call(pointer, size_bytes, stream); }, pointer,
      size_bytes, stream);
}

VGPU_API cudaError_t cudaMallocFromPoolAsync(void** pointer, size_t size_bytes, cudaMemPool_t pool,
                                             cudaStream_t stream) {
  return traced(
      {391, "cudaMallocFromPoolAsync"},
      [&] { return allocate_from_pool(pointer, size_bytes, pool, stream); }, pointer, size_bytes,
      pool, stream);
}

VGPU_API cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  return traced({375, "cudaFreeAsync"}, [&] { return free_on(pointer, stream); }, pointer, stream);
}

VGPU_API cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr attribute,
                                             void* value) {
  if (attribute == cudaMemPoolAttrReleaseThreshold) {
    reinterpret_cast<Pool*>(pool)->release_threshold = *static_cast<uint64_t*>(value);
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t handle, cudaMemPoolAttr attribute,
                                             void* value) {
  return locked([&](Lock&) {
    const Pool& pool = *reinterpret_cast<Pool*>(handle);
    const MemoryMap& memory = runtime().memory;
    switch (attribute) {
      case cudaMemPoolAttrReleaseThreshold:
        *static_cast<uint64_t*>(value) = pool.release_threshold;
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemCurrent:
      case cudaMemPoolAttrReservedMemHigh:
      case cudaMemPoolAttrUsedMemCurrent:
      case cudaMemPoolAttrUsedMemHigh:
        *static_cast<uint64_t*>(value) = memory.total_bytes() - memory.free_bytes(pool.device);
        return cudaSuccess;
      default:
        *static_cast<int*>(value) = 1;
        return cudaSuccess;
    }
  });
}

VGPU_API cudaError_t cudaMemPoolSetAccess(cudaMemPool_t, const cudaMemAccessDesc*, size_t) {
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemPoolTrimTo(cudaMemPool_t, size_t) { return cudaSuccess; }

VGPU_API cudaError_t cudaDeviceGetGraphMemAttribute(int, cudaGraphMemAttributeType, void* value) {
  *static_cast<uint64_t*>(value) = 0;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaDeviceSetGraphMemAttribute(int, cudaGraphMemAttributeType, void*) {
  return cudaSuccess;
}
