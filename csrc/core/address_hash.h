// Lookup by an exact address, or by another number.
#ifndef STREAMGUARD_CORE_ADDRESS_HASH_H_
#define STREAMGUARD_CORE_ADDRESS_HASH_H_

#include <cstddef>
#include <cstdint>

#include "core/large_pages.h"
#include "core/region.h"

namespace streamguard::core {

// Fibonacci hashing: block addresses are multiples of 512, their low bits say nothing.
inline std::size_t spread(Address address) {
  return static_cast<std::size_t>((address * 0x9e3779b97f4a7c15ull) >> 20);
}

// Open-addressing table from an address to a 32-bit value.
//
// Thread safety: none.
// Invariants:
//   1. At most three quarters of the slots are used; no tombstones (erase shifts back).
// Cost: O(1) expected.
class AddressHash {
 public:
  static constexpr std::uint32_t kNotFound = 0xffffffffu;

  AddressHash() : slots_(64) {}

  std::uint32_t find(Address address) const {
    for (std::size_t at = home(address);; at = next(at)) {
      if (slots_[at].value == kNotFound) return kNotFound;
      if (slots_[at].address == address) return slots_[at].value;
    }
  }
  std::size_t size() const { return size_; }
  // Starts to load the slot.
  void prefetch(Address address) const { __builtin_prefetch(&slots_[home(address)]); }
  // REQUIRES: the address is not in the table; value != kNotFound.
  void insert(Address address, std::uint32_t value) {
    if ((size_ + 1) * 4 > slots_.size() * 3) grow();
    place({address, value});
    ++size_;
  }
  // REQUIRES: the address is in the table.
  void erase(Address address) {
    std::size_t hole = home(address);
    while (slots_[hole].address != address || slots_[hole].value == kNotFound) hole = next(hole);
    for (std::size_t at = next(hole); slots_[at].value != kNotFound; at = next(at)) {
      // A slot may move into the hole unless its home lies cyclically in (hole, at].
      const std::size_t distance_home = (at - home(slots_[at].address)) & mask();
      const std::size_t distance_hole = (at - hole) & mask();
      if (distance_home < distance_hole) continue;
      slots_[hole] = slots_[at];
      hole = at;
    }
    slots_[hole].value = kNotFound;
    --size_;
  }

 private:
  struct Slot {
    Address address = 0;
    std::uint32_t value = kNotFound;
  };

  std::size_t mask() const { return slots_.size() - 1; }
  std::size_t next(std::size_t at) const { return (at + 1) & mask(); }
  std::size_t home(Address address) const { return spread(address) & mask(); }
  void place(const Slot& slot) {
    std::size_t at = home(slot.address);
    while (slots_[at].value != kNotFound) at = next(at);
    slots_[at] = slot;
  }
  void grow() {
    LargeVector<Slot> old(slots_.size() * 2);
    old.swap(slots_);
    for (const Slot& slot : old) {
      if (slot.value != kNotFound) place(slot);
    }
  }

  LargeVector<Slot> slots_;
  std::size_t size_ = 0;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_ADDRESS_HASH_H_
