#pragma once

#include <cstdint>

#include "hooks/sites.h"

namespace streamguard::hooks {

/// Remembers which Python stack created an autograd node, so that backward ops get a forward line.
///
/// A node is known by the thread that created it and its sequence number. Each thread keeps its
/// newest 16,384 nodes; a node older than that has no line any more, never a wrong one.
///
/// Thread safety: `note` writes the calling thread's own entries, `find` may be called from any
/// thread. Cost: `note` and `find` a few ns; 256 KiB for each thread that runs forward ops.
class ForwardSites {
 public:
  /// The first writer of a node wins: its own op runs before ops that merely see the same counter.
  static void note(uint64_t thread_id, uint64_t sequence_number, StackId stack);

  /// 0 when the node is not known.
  static StackId find(uint64_t thread_id, uint64_t sequence_number);
};

}  // namespace streamguard::hooks
