#pragma once

#include <cstdint>
#include <map>
#include <mutex>

namespace streamguard::cupti {

/// Where memory lies, as far as calls have told.
enum class Place : uint8_t { kUnknown, kDevice, kPinned };

/// The allocations of the CUDA runtime that CUPTI has told of: inside a callback nobody may ask
/// CUDA where a pointer points.
///
/// Thread safety: all members, from anywhere; they take no other lock. Never destroyed. What was
/// allocated before we listened, or by the driver's interface, is not known.
/// Cost: a lookup in a balanced tree with one entry an allocation.
class HeardMemory {
 public:
  static HeardMemory& get();

  void add(uint64_t begin, uint64_t bytes, Place place);
  void remove(uint64_t begin);
  void clear();
  Place at(uint64_t address) const;

 private:
  struct Block {
    uint64_t end;
    Place place;
  };

  mutable std::mutex mutex_;
  std::map<uint64_t, Block> blocks_;  // key: begin
};

}  // namespace streamguard::cupti
