// What one op writes, taken out of what it reads.
#ifndef STREAMGUARD_CORE_OWN_WRITES_H_
#define STREAMGUARD_CORE_OWN_WRITES_H_

#include <vector>

#include "core/access.h"
#include "core/region.h"

namespace streamguard::core {

// Bytes that one op both reads and writes count as written once. Scratch object, reused per op.
//
// Thread safety: none.
// Cost: O(writes log writes) per op with more than a few accesses, then O(log writes) per read that
//   meets no write. Rows are only walked when a pitched read and a write overlap in part.
class OwnWrites {
 public:
  void set(AccessSpan accesses);
  // Fills `pieces` with the bytes of `read` that the op does not write.
  void subtract_from(const Region& read, std::vector<Region>& pieces);

 private:
  struct Write {
    Region region;
    ByteRange bounds;
    Address furthest_end;  // of this and all writes before it
  };

  std::vector<Write> writes_;  // by begin
  std::vector<Region> rest_;   // scratch
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_OWN_WRITES_H_
