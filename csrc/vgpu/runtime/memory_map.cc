#include "memory_map.h"

#include <sys/mman.h>

#include <algorithm>
#include <cstdint>
#include <cstring>

namespace streamguard::vgpu {
namespace {

constexpr size_t kGranularity = size_t{2} << 20;  // as cudaMalloc: torch relies on 512 bytes
constexpr size_t kPage = 4096;
constexpr size_t kCacheLimit = size_t{256} << 20;

size_t round_up(size_t bytes, size_t unit) { return (bytes + unit - 1) / unit * unit; }

// mmap aligned to kGranularity: reserve more, give back both ends.
char* map_aligned(size_t bytes) {
  const size_t reserved = bytes + kGranularity;
  void* raw = mmap(nullptr, reserved, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (raw == MAP_FAILED) return nullptr;
  auto* const start = static_cast<char*>(raw);
  auto* const begin =
      reinterpret_cast<char*>(round_up(reinterpret_cast<uintptr_t>(start), kGranularity));
  if (begin > start) munmap(start, static_cast<size_t>(begin - start));
  char* const end = begin + bytes;
  char* const reserved_end = start + reserved;
  if (reserved_end > end) munmap(end, static_cast<size_t>(reserved_end - end));
  return begin;
}

}  // namespace

void fill_touched_pages(char* begin, size_t bytes, int pattern) {
  const auto misplaced = reinterpret_cast<uintptr_t>(begin) % kPage;
  char* const first_page = begin - misplaced;
  std::vector<unsigned char> resident((misplaced + bytes + kPage - 1) / kPage);
  if (mincore(first_page, misplaced + bytes, resident.data()) != 0) return;
  for (size_t page = 0; page < resident.size(); ++page) {
    if ((resident[page] & 1) == 0) continue;
    char* const from = std::max(first_page + page * kPage, begin);
    char* const to = std::min(first_page + (page + 1) * kPage, begin + bytes);
    std::memset(from, pattern, static_cast<size_t>(to - from));
  }
}

void* MemoryMap::allocate(size_t size_bytes, int device, MemoryKind kind) {
  const bool on_device = kind == MemoryKind::kDevice || kind == MemoryKind::kManaged;
  if (size_bytes > SIZE_MAX / 2) return nullptr;
  const size_t mapped = round_up(size_bytes == 0 ? 1 : size_bytes, kGranularity);
  if (on_device && !reserve_budget(device, mapped)) return nullptr;
  char* begin = nullptr;
  const auto cached = cache_.find(mapped);
  if (cached != cache_.end()) {
    begin = cached->second;
    cache_.erase(cached);
    cached_bytes_ -= mapped;
  } else {
    begin = map_aligned(mapped);
  }
  if (begin == nullptr) {
    if (on_device) return_budget(device, mapped);
    return nullptr;
  }
  add({begin, size_bytes, mapped, device, kind});
  return begin;
}

void MemoryMap::release(void* pointer) {
  const auto found = allocations_.find(static_cast<char*>(pointer));
  const Allocation allocation = found->second;
  allocations_.erase(found);
  if (!is_host(allocation.kind)) return_budget(allocation.device, allocation.mapped_bytes);
  if (cached_bytes_ + allocation.mapped_bytes > kCacheLimit) {
    munmap(allocation.begin, allocation.mapped_bytes);
    return;
  }
  fill_touched_pages(allocation.begin, allocation.mapped_bytes, kFreedPattern);
  cache_.emplace(allocation.mapped_bytes, allocation.begin);
  cached_bytes_ += allocation.mapped_bytes;
}

void MemoryMap::forget_freed() {
  for (const auto& [bytes, begin] : cache_) munmap(begin, bytes);
  cache_.clear();
  cached_bytes_ = 0;
}

void MemoryMap::add(const Allocation& allocation) { allocations_[allocation.begin] = allocation; }

bool MemoryMap::remove(void* begin) { return allocations_.erase(static_cast<char*>(begin)) != 0; }

bool MemoryMap::reserve_budget(int device, size_t bytes) {
  if (bytes > free_bytes(device)) return false;
  used_bytes_[static_cast<size_t>(device)] += bytes;
  return true;
}

void MemoryMap::return_budget(int device, size_t bytes) {
  used_bytes_[static_cast<size_t>(device)] -= bytes;
}

const Allocation* MemoryMap::find(const void* pointer) const {
  const auto* byte = static_cast<const char*>(pointer);
  auto next = allocations_.upper_bound(byte);
  if (next == allocations_.begin()) return nullptr;
  const Allocation& allocation = std::prev(next)->second;
  return byte < allocation.begin + allocation.mapped_bytes ? &allocation : nullptr;
}

MemoryKind MemoryMap::kind_of(const void* pointer) const {
  const Allocation* allocation = find(pointer);
  return allocation == nullptr ? MemoryKind::kPageable : allocation->kind;
}

}  // namespace streamguard::vgpu
