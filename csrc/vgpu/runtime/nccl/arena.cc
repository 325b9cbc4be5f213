#include "arena.h"

#include <sys/mman.h>

#include <iterator>

namespace streamguard::vgpu::nccl {
namespace {

constexpr size_t kAlignment = 4096;
constexpr size_t kReturnedBlock = size_t{4} << 20;

size_t rounded(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

uint64_t Arena::allocate(size_t bytes) {
  const size_t needed = rounded(bytes);
  if (needed == 0) return 0;
  for (auto block = free_.begin(); block != free_.end(); ++block) {
    if (block->second < needed) continue;
    const uint64_t offset = block->first;
    const uint64_t rest = block->second - needed;
    free_.erase(block);
    if (rest > 0) free_[offset + needed] = rest;
    return offset;
  }
  return kNoSpace;
}

void Arena::release(uint64_t offset, size_t bytes, char* memory) {
  uint64_t size = rounded(bytes);
  if (size == 0) return;
  if (size >= kReturnedBlock) madvise(memory + offset, size, MADV_REMOVE);
  const auto next = free_.lower_bound(offset);
  if (next != free_.end() && offset + size == next->first) {
    size += next->second;
    free_.erase(next);
  }
  const auto after = free_.lower_bound(offset);
  if (after != free_.begin()) {
    const auto previous = std::prev(after);
    if (previous->first + previous->second == offset) {
      previous->second += size;
      return;
    }
  }
  free_[offset] = size;
}

}  // namespace streamguard::vgpu::nccl
