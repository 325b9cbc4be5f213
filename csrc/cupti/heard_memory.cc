#include "cupti/heard_memory.h"

#include <iterator>
#include <memory>

namespace streamguard::cupti {

HeardMemory& HeardMemory::get() {
  static HeardMemory& memory = *std::make_unique<HeardMemory>().release();
  return memory;
}

void HeardMemory::add(uint64_t begin, uint64_t bytes, Place place) {
  if (bytes == 0) return;
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_[begin] = {begin + bytes, place};
}

void HeardMemory::remove(uint64_t begin) {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.erase(begin);
}

void HeardMemory::clear() {
  const std::lock_guard<std::mutex> lock(mutex_);
  blocks_.clear();
}

Place HeardMemory::at(uint64_t address) const {
  const std::lock_guard<std::mutex> lock(mutex_);
  const auto above = blocks_.upper_bound(address);
  if (above == blocks_.begin()) return Place::kUnknown;
  const Block& block = std::prev(above)->second;
  return address < block.end ? block.place : Place::kUnknown;
}

}  // namespace streamguard::cupti
