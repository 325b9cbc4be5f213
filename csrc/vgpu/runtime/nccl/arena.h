// Where one rank's published bytes lie until every reader has read them.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_ARENA_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_ARENA_H_

#include <cstddef>
#include <cstdint>
#include <map>

namespace streamguard::vgpu::nccl {

// Far more than memory: a segment takes pages only when they are written.
constexpr size_t kArenaBytes = size_t{32} << 30;
constexpr uint64_t kNoSpace = ~uint64_t{0};

// First fit over offsets; thread safety: none, one communicator runs one op at a time.
class Arena {
 public:
  Arena() { free_[0] = kArenaBytes; }

  // Offset of `bytes` free bytes, kNoSpace when there are none.
  uint64_t allocate(size_t bytes);
  // REQUIRES: the pair came from allocate(). `memory` is the arena's mapping: pages of large
  // blocks go back to the machine.
  void release(uint64_t offset, size_t bytes, char* memory);

 private:
  std::map<uint64_t, uint64_t> free_;  // offset -> bytes, never adjacent
};

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_ARENA_H_
