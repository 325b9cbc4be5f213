#include "collectives/ring.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <system_error>

namespace streamguard::collectives {

void Ring::open(const std::string& path, uint64_t capacity) {
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (file < 0) throw std::system_error(errno, std::generic_category(), path);
  const size_t size_bytes = sizeof(Header) + capacity * sizeof(Record);
  // Blocks are reserved here: a full disk must not become a bus error in the middle of training.
  const int error = ::posix_fallocate(file, 0, static_cast<off_t>(size_bytes));
  void* memory = error != 0
                     ? MAP_FAILED
                     : ::mmap(nullptr, size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  const int map_error = error != 0 ? error : errno;
  ::close(file);
  if (memory == MAP_FAILED) throw std::system_error(map_error, std::generic_category(), path);
  header_ = static_cast<Header*>(memory);
  header_->capacity = capacity;
  header_->pid = static_cast<uint64_t>(::getpid());
  std::memcpy(header_->magic, "SGCOLL02", sizeof(header_->magic));
  mask_ = capacity - 1;
  records_ = reinterpret_cast<Record*>(header_ + 1);
}

uint64_t Ring::append(const Record& record) {
  const uint64_t position = __atomic_fetch_add(&header_->next, 1, __ATOMIC_ACQ_REL);
  Record& slot = records_[position & mask_];
  __atomic_store_n(&slot.number, 0, __ATOMIC_RELEASE);
  std::memcpy(reinterpret_cast<char*>(&slot) + sizeof(slot.number),
              reinterpret_cast<const char*>(&record) + sizeof(record.number),
              sizeof(Record) - sizeof(record.number));
  __atomic_store_n(&slot.number, position + 1, __ATOMIC_RELEASE);
  return position;
}

void Ring::set_times(uint64_t position, uint64_t start_ns, uint64_t end_ns) {
  Record& slot = records_[position & mask_];
  if (__atomic_load_n(&slot.number, __ATOMIC_ACQUIRE) != position + 1) return;
  slot.start_ns = start_ns;
  slot.end_ns = end_ns;
}

}  // namespace streamguard::collectives
