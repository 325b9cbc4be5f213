// A CUDA event: names the newest of its recordings.
#ifndef STREAMGUARD_VGPU_RUNTIME_EVENT_H_
#define STREAMGUARD_VGPU_RUNTIME_EVENT_H_

#include <memory>
#include <vector>

#include "work.h"

namespace streamguard::vgpu {

struct Graph;
struct GraphNode;

// Thread safety: guarded by the runtime's lock.
struct Event {
  int device = 0;
  unsigned flags = 0;
  std::shared_ptr<EventRecord> latest;  // null: never recorded
  // Set while the newest record was captured: a wait inside the same capture joins it.
  std::shared_ptr<Graph> captured_by;
  std::vector<GraphNode*> captured_frontier;
  // Unsuccessful queries of `latest` by threads that issue work.
  int queries = 0;
};

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_EVENT_H_
