// Names of byte ranges over time.
#ifndef STREAMGUARD_CORE_NAME_TABLE_H_
#define STREAMGUARD_CORE_NAME_TABLE_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/ids.h"
#include "core/region.h"

namespace streamguard::core {

// Says what a byte was called when an op touched it: "ipg_buffer[0]" now may have been another
// bucket an hour ago. A name belongs to the block that held the bytes when it was given, so that
// nothing has to be done when a block ends and another one begins.
//
// Thread safety: none; the caller serialises all calls.
// Invariants:
//   1. Ranges of the map are disjoint and not empty.
//   2. A byte keeps its kVersionsPerByte newest names; older ones are dropped, so memory is bounded
//      by the number of distinct ranges named and not forgotten.
// Cost: add and lookup O(log ranges + ranges touched). Buckets whose bounds move from step to step
// cut memory into many small ranges, so that a touched range only has 24 bytes written.
class NameTable {
 public:
  struct Named {
    ByteRange range;  // part of the looked-up range that has this name
    ByteRange whole;  // range the name was given to, for offsets within it
    std::string text;
  };

  static constexpr std::size_t kVersionsPerByte = 8;

  // From op `since` on, the bytes of `block` are called `text`. REQUIRES: `since` does not
  // decrease.
  void add(ByteRange range, std::string_view text, OpId since, AllocationId block);
  // What an access at op `at` to `block` would call each byte: its newest name by then, or else the
  // first one it got later, since a block is often named by code that runs after its first op.
  // Neighbours of one name are joined.
  std::vector<Named> lookup(ByteRange range, OpId at, AllocationId block) const;
  // The bytes were freed: what comes next has no name.
  void forget(ByteRange range);
  std::size_t size() const { return entries_.size(); }
  // Names that some byte still has, or had for an op that is kept.
  std::size_t names_in_use() const { return names_.in_use(); }

 private:
  using NameId = std::uint32_t;
  // Texts with the number of versions that use each. A text nobody uses gives its place, and its
  // memory, to the next one.
  class Names {
   public:
    struct Name {
      ByteRange whole;
      std::string text;
    };
    NameId add(ByteRange whole, std::string_view text);
    void keep(NameId name) { ++uses_[name]; }
    void drop(NameId name);
    const Name& operator[](NameId name) const { return names_[name]; }
    std::size_t in_use() const { return names_.size() - unused_.size(); }

   private:
    std::vector<Name> names_;
    std::vector<std::uint32_t> uses_;
    std::vector<NameId> unused_;
  };
  struct Version {
    OpId since;
    AllocationId block;
    NameId name;
    bool is_first;  // no other name of this block came before it
  };
  // The newest kVersionsPerByte, in a ring.
  class Versions {
   public:
    std::size_t size() const { return size_; }
    // 0 is the newest. REQUIRES: age < size().
    const Version& operator[](std::size_t age) const {
      return ring_[(newest_ + kVersionsPerByte - age) % kVersionsPerByte];
    }
    bool is_full() const { return size_ == kVersionsPerByte; }
    void push(const Version& version);
    const Version* find(OpId at, AllocationId block) const;

   private:
    std::array<Version, kVersionsPerByte> ring_;
    std::uint8_t newest_ = kVersionsPerByte - 1;
    std::uint8_t size_ = 0;
  };
  struct Entry {
    Address end;
    Versions versions;
  };
  using Entries = std::map<Address, Entry>;

  void push(Entry& entry, OpId since, AllocationId block, NameId name);
  void split_at(Address address);

  Names names_;
  Entries entries_;  // key: begin
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_NAME_TABLE_H_
