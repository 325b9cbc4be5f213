// Names of byte ranges over time.
#ifndef STREAMGUARD_CORE_NAME_TABLE_H_
#define STREAMGUARD_CORE_NAME_TABLE_H_

#include <cstddef>
#include <map>
#include <memory>
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
// Cost: add and lookup O(log ranges + ranges touched).
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

 private:
  struct Name {
    ByteRange whole;
    std::string text;
  };
  struct Version {
    OpId since;
    AllocationId block;
    bool is_first;  // no other name of this block came before it
    std::shared_ptr<const Name> name;
  };
  struct Entry {
    Address end;
    std::vector<Version> versions;  // oldest first

    void push(OpId since, AllocationId block, const std::shared_ptr<const Name>& name);
    const Version* find(OpId at, AllocationId block) const;
  };
  using Entries = std::map<Address, Entry>;

  void split_at(Address address);

  Entries entries_;  // key: begin
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_NAME_TABLE_H_
