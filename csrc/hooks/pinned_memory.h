#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/StorageImpl.h>
#include <c10/util/intrusive_ptr.h>

#include <atomic>
#include <cstdint>
#include <map>

#include "hooks/detector.h"

namespace streamguard::hooks {

/// The pinned host blocks that device copies have touched.
///
/// torch's host allocator tells nobody about its blocks. It hands a block out again only when the
/// copies of its last user are complete, so a new storage on the same bytes is a new allocation
/// whose earlier copies are done. A storage on bytes of one that still lives is an alias of it
/// (from_numpy).
///
/// Thread safety: `may_contain` from anywhere, the others as they say.
/// Memory: one entry per block of the host allocator; entries are replaced when the block is
/// reused.
class PinnedMemory {
 public:
  static PinnedMemory& get();

  /// Whether a host access to these bytes could concern a known block. Cost: two atomic loads.
  bool may_contain(uint64_t begin, uint64_t end) const {
    return begin < end_.load(std::memory_order_relaxed) &&
           end > begin_.load(std::memory_order_relaxed);
  }

  /// A device copy touches `tensor`. Returns: whether it lies in pinned memory; then it is known
  /// now. REQUIRES: no lock of ours is held.
  bool note_device_copy(const at::Tensor& tensor);

  /// A host op touches `tensor`. Returns: whether its bytes belong to a known block.
  bool note_host_access(const at::Tensor& tensor);

  /// Forgets all blocks. REQUIRES: the detector's mutex is held.
  void clear();

 private:
  struct Block {
    uint64_t end;
    c10::weak_intrusive_ptr<c10::StorageImpl> storage;
  };
  using Blocks = std::map<uint64_t, Block>;  // key: begin

  static bool is_same(const Block& block, const at::Tensor& tensor);
  Blocks::iterator first_overlapping(uint64_t begin, uint64_t end);
  void register_storage(detection::DetectorState& state, const at::Tensor& tensor,
                        core::HostThreadId thread);

  Blocks blocks_;                            // guarded by the detector's mutex
  std::atomic<uint64_t> begin_{UINT64_MAX};  // bounds of all blocks ever known
  std::atomic<uint64_t> end_{0};
};

}  // namespace streamguard::hooks
