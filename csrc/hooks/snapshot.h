#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "core/access.h"
#include "core/region.h"

namespace streamguard::hooks {

/// The bytes of some memory at one place of a stream, or at one moment of the host.
///
/// Copied into pinned memory, so that no copy waits for the host and nothing is written on the
/// device. At most kCapacity bytes: of larger accesses the part around `wanted`.
///
/// Thread safety: none. Memory: kCapacity, taken by `prepare`.
class Snapshot {
 public:
  static constexpr size_t kCapacity = size_t{4} << 20;
  static constexpr size_t kMaxPieces = 64;

  /// Returns: whether there is memory to copy to. REQUIRES: not under the allocator's lock.
  bool prepare();

  void clear() {
    pieces_.clear();
    used_ = 0;
  }
  /// Copies, on `stream`, what the accesses of `kind` touch; those that meet `wanted` first.
  void take(cudaStream_t stream, core::AccessSpan accesses, core::AccessKind kind,
            core::ByteRange wanted);
  void take(cudaStream_t stream, core::ByteRange bytes);
  /// As the host sees them now. REQUIRES: memory of the host.
  void take_on_host(core::ByteRange bytes);

  bool is_empty() const { return pieces_.empty(); }
  /// The part of `bytes` that was copied; empty when none was.
  core::ByteRange covered(core::ByteRange bytes) const;
  /// REQUIRES: covered(bytes) is bytes, and the copies are complete.
  const std::byte* at(core::ByteRange bytes) const;

 private:
  struct Piece {
    core::ByteRange bytes;
    size_t offset;
  };

  std::byte* memory_ = nullptr;
  size_t used_ = 0;
  std::vector<Piece> pieces_;
};

}  // namespace streamguard::hooks
