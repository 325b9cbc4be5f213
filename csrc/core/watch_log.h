// Accesses to watched bytes and what orders them.
#ifndef STREAMGUARD_CORE_WATCH_LOG_H_
#define STREAMGUARD_CORE_WATCH_LOG_H_

#include <optional>
#include <vector>

#include "core/happens_before.h"
#include "core/race.h"
#include "core/region.h"
#include "core/shadow_memory.h"

namespace streamguard::core {

// Explains order where it exists: for each access to watched bytes, the newest conflicting access
// of each lane and kind, with the edge that orders the pair. Keeps a shadow memory of its own, in
// which nothing is dropped because the host knows it.
//
// Thread safety: none.
// Cost: nothing while no range is watched.
class WatchLog {
 public:
  void watch(const ByteRange& range);
  void unwatch(const ByteRange& range);
  void forget(const ByteRange& range) { shadow_.forget(range); }
  bool is_empty() const { return ranges_.empty(); }
  // `with_communicators` is null while HB-09 orders nothing more than the other rules.
  void enter(const AccessRecord& access, const HappensBefore& order,
             const HappensBefore* with_communicators);
  std::vector<WatchedAccess> take();

 private:
  std::vector<ByteRange> ranges_;
  ShadowMemory shadow_{History::kBounded, nullptr};
  std::vector<RecordIndex> found_;
  std::vector<WatchedAccess> log_;
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_WATCH_LOG_H_
