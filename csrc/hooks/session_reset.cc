#include "hooks/session_reset.h"

#include "hooks/detector.h"
#include "hooks/pinned_memory.h"

namespace streamguard::hooks {

void forget_everything() {
  const Detector::Access state(Detector::get());
  PinnedMemory::get().clear();
  state->engine.forget({0, UINT64_MAX});
  state->works.clear();
  state->graph_blocks.clear();
}

}  // namespace streamguard::hooks
