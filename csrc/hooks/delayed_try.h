#pragma once

#include <cstdint>

#include "core/race.h"
#include "hooks/snapshot.h"

namespace streamguard::hooks {

/// One occurrence of a racing pair whose first op was delayed, and what the bytes were where.
///
/// With the missing edge the second op would start on what the first one left, and the first on
/// what it was issued on. Every snapshot lies in the order of one of the two streams, so taking it
/// orders nothing.
struct DelayedTry {
  core::Race::Kind kind = core::Race::Kind::kRaw;
  core::ByteRange bytes;  // compared: where the two accesses meet, as far as it was copied
  Snapshot issued;        // first stream, before the delay; where both write
  Snapshot started;       // first stream, behind the delay; where the second writes
  Snapshot ended;         // first stream, right behind the first op
  Snapshot met;           // second stream or host, right before the second op
  Snapshot left;          // second stream or host, right behind it; where both write

  bool prepare();
  void clear();
  /// How many of `bytes` were not what they would be with the missing edge: read too early (RAW),
  /// overwritten before they were read (WAR), or overwritten in the wrong order and different for
  /// it (WAW). REQUIRES: all copies are complete.
  uint64_t changed_bytes() const;
};

}  // namespace streamguard::hooks
