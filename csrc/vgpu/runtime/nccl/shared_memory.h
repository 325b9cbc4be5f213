// Memory that several processes map, without a name in any file system.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_SHARED_MEMORY_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_SHARED_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace streamguard::vgpu::nccl {

// How another process of the same user finds a segment: through the owner's file descriptor
// table, which the kernel opens to that user only. Nothing is left behind, however a process ends.
struct SegmentAddress {
  int32_t process = 0;
  int32_t descriptor = -1;
};

// A process, safe against reuse of its number.
struct ProcessIdentity {
  int32_t process = 0;
  uint64_t start_time = 0;  // clock ticks after boot
};

ProcessIdentity own_identity();
// False when it ended, also while its parent has not yet collected it.
bool is_alive(const ProcessIdentity& identity);

// Owns a mapping and, until close_descriptor(), the descriptor by which others find it.
// Pages are taken when touched, so a segment may be much larger than memory.
class SharedMemory {
 public:
  SharedMemory() = default;
  SharedMemory(SharedMemory&& other) noexcept;
  SharedMemory& operator=(SharedMemory&& other) noexcept;
  ~SharedMemory();

  // Empty on failure; `error` then says why.
  static SharedMemory create(size_t bytes, std::string* error);
  static SharedMemory open(const SegmentAddress& address, size_t bytes, std::string* error);

  // Maps the whole segment at another size; the old mapping ends. False on failure.
  bool resize(size_t bytes);
  void close_descriptor();

  char* data() const { return data_; }
  explicit operator bool() const { return data_ != nullptr; }
  SegmentAddress address() const;

 private:
  static SharedMemory map(int descriptor, size_t bytes, std::string* error);

  char* data_ = nullptr;
  size_t bytes_ = 0;
  int descriptor_ = -1;
};

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_SHARED_MEMORY_H_
