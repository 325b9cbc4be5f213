#include "shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace streamguard::vgpu::nccl {
namespace {

constexpr mode_t kOwnerOnly = 0600;

struct ProcessStatus {
  char state = 'X';
  uint64_t start_time = 0;
};

// Fields 3 and 22 of /proc/ID/stat; the name in field 2 may hold any character.
ProcessStatus status_of(int32_t process) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/stat", process);
  const int file = open(path, O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[1024];
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  if (length <= 0) return {};
  text[length] = '\0';
  const char* field = std::strrchr(text, ')');
  if (field == nullptr) return {};
  ProcessStatus status;
  status.state = field[2];
  for (int index = 2; index < 22 && field != nullptr; ++index) field = std::strchr(field + 1, ' ');
  if (field != nullptr) status.start_time = std::strtoull(field + 1, nullptr, 10);
  return status;
}

std::string failure(const char* what) { return std::string(what) + ": " + std::strerror(errno); }

}  // namespace

ProcessIdentity own_identity() {
  const int32_t process = getpid();
  return {process, status_of(process).start_time};
}

bool is_alive(const ProcessIdentity& identity) {
  const ProcessStatus status = status_of(identity.process);
  return status.state != 'X' && status.state != 'Z' && status.start_time == identity.start_time;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept { *this = std::move(other); }

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(bytes_, other.bytes_);
  std::swap(descriptor_, other.descriptor_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (data_ != nullptr) munmap(data_, bytes_);
  close_descriptor();
}

SharedMemory SharedMemory::map(int descriptor, size_t bytes, std::string* error) {
  SharedMemory memory;
  memory.descriptor_ = descriptor;
  if (!memory.resize(bytes)) *error = failure("mapping shared memory");
  return memory;
}

SharedMemory SharedMemory::create(size_t bytes, std::string* error) {
  const int descriptor = memfd_create("streamguard", MFD_CLOEXEC);
  if (descriptor < 0) {
    *error = failure("memfd_create");
    return {};
  }
  fchmod(descriptor, kOwnerOnly);
  return map(descriptor, bytes, error);
}

SharedMemory SharedMemory::open(const SegmentAddress& address, size_t bytes, std::string* error) {
  char path[64];
  std::snprintf(path, sizeof path, "/proc/%d/fd/%d", address.process, address.descriptor);
  const int descriptor = ::open(path, O_RDWR | O_CLOEXEC);
  if (descriptor < 0) {
    *error = failure(path) + " (all ranks must run on one machine, as one user)";
    return {};
  }
  return map(descriptor, bytes, error);
}

bool SharedMemory::resize(size_t bytes) {
  struct stat status{};
  if (fstat(descriptor_, &status) != 0) return false;
  if (static_cast<size_t>(status.st_size) < bytes &&
      ftruncate(descriptor_, static_cast<off_t>(bytes)) != 0) {
    return false;
  }
  void* mapped =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor_, 0);
  if (mapped == MAP_FAILED) return false;
  if (data_ != nullptr) munmap(data_, bytes_);
  data_ = static_cast<char*>(mapped);
  bytes_ = bytes;
  return true;
}

void SharedMemory::close_descriptor() {
  if (descriptor_ >= 0) close(descriptor_);
  descriptor_ = -1;
}

SegmentAddress SharedMemory::address() const { return {getpid(), descriptor_}; }

}  // namespace streamguard::vgpu::nccl
