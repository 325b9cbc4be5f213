// Which host bytes are the memory of which virtual device.
#ifndef STREAMGUARD_VGPU_RUNTIME_MEMORY_MAP_H_
#define STREAMGUARD_VGPU_RUNTIME_MEMORY_MAP_H_

#include <cstddef>
#include <map>
#include <vector>

namespace streamguard::vgpu {

enum class MemoryKind { kPageable, kDevice, kPinned, kRegistered, kManaged };

struct Allocation {
  char* begin = nullptr;
  size_t size_bytes = 0;    // as asked for
  size_t mapped_bytes = 0;  // whole pages; what the device's budget pays
  int device = 0;
  MemoryKind kind = MemoryKind::kDevice;
};

// Thread safety: guarded by the runtime's lock.
// Memory is reserved without being taken; the kernel gives pages when they are touched.
class MemoryMap {
 public:
  MemoryMap(int devices, size_t device_bytes)
      : used_bytes_(static_cast<size_t>(devices)), device_bytes_(device_bytes) {}

  // Freed memory is filled with this before it is handed out again, so that a stale read shows,
  // under every schedule alike; only pages that were touched are filled.
  static constexpr int kFreedPattern = 0xFB;

  // Null when the device has too little left or the host refuses.
  void* allocate(size_t size_bytes, int device, MemoryKind kind);
  // REQUIRES: `pointer` is the begin of an allocation made by allocate().
  void release(void* pointer);
  // Gives freed memory back to the machine: new memory is then as in a fresh process.
  void forget_freed();

  // Memory mapped by others: registered host memory, segments of the driver's VMM interface.
  void add(const Allocation& allocation);
  bool remove(void* begin);
  // Accounts for device memory without an address (driver handles). False when too much.
  bool reserve_budget(int device, size_t bytes);
  void return_budget(int device, size_t bytes);

  // The allocation that holds the byte, null for memory CUDA does not know.
  const Allocation* find(const void* pointer) const;
  MemoryKind kind_of(const void* pointer) const;

  size_t free_bytes(int device) const {
    return device_bytes_ - used_bytes_[static_cast<size_t>(device)];
  }
  size_t total_bytes() const { return device_bytes_; }

 private:
  std::map<const char*, Allocation> allocations_;
  std::multimap<size_t, char*> cache_;  // freed mappings by size
  size_t cached_bytes_ = 0;
  std::vector<size_t> used_bytes_;
  const size_t device_bytes_;
};

// Writes `pattern` over the bytes of [begin, begin + bytes) that lie in pages of the process.
void fill_touched_pages(char* begin, size_t bytes, int pattern);

inline bool is_host(MemoryKind kind) {
  return kind == MemoryKind::kPageable || kind == MemoryKind::kPinned ||
         kind == MemoryKind::kRegistered;
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_MEMORY_MAP_H_
