// A CUDA stream: a queue of ops that complete in order.
#ifndef STREAMGUARD_VGPU_RUNTIME_STREAM_H_
#define STREAMGUARD_VGPU_RUNTIME_STREAM_H_

#include <deque>
#include <memory>
#include <vector>

#include "work.h"

namespace streamguard::vgpu {

struct Graph;
struct GraphNode;

enum class StreamKind { kLegacy, kBlocking, kNonBlocking };

struct Op {
  uint64_t sequence = 0;  // issue order in the process; every dependency has a smaller one
  Work work;
  std::vector<Mark> dependencies;  // on other streams; the stream's own order is implied
  const char* name = "";           // lives for ever; steps describe themselves
};

// What a stream is recording. Empty graph: not capturing.
struct Capture {
  std::shared_ptr<Graph> graph;
  std::vector<GraphNode*> frontier;  // nodes the next captured op depends on
  bool is_origin = false;
};

// Thread safety: every member is guarded by the runtime's lock.
// Invariants: 1. completed + pending.size() == issued. 2. pending[k] is the op at position
// completed + k + 1. 3. completed never decreases.
class Stream {
 public:
  Stream(int device, StreamKind kind, int priority, uint64_t id)
      : device(device), kind(kind), priority(priority), id(id) {}

  bool is_reached(uint64_t position) const { return completed >= position; }
  bool is_capturing() const { return capture.graph != nullptr; }
  const Op& op_at(uint64_t position) const { return pending[position - completed - 1]; }

  int device;
  StreamKind kind;
  int priority;
  uint64_t id;
  int index = -1;  // order of first use in the process; what schedules and the log name
  uint64_t issued = 0;
  uint64_t completed = 0;
  std::deque<Op> pending;
  Capture capture;

  // Used by the thread that executes: position needed by the closure it runs, and streams whose
  // next op waits for one of this stream.
  uint64_t needed = 0;
  std::vector<Stream*> parked;
  // Unsuccessful queries in a row by threads that issue work.
  int queries = 0;
  // The schedule wants the ops up to here without waiting for a host synchronisation.
  uint64_t wanted = 0;
  // The stream is delayed: its ops do not run at issue. Up to `wanted_later` the schedule wanted
  // them to.
  bool is_held = false;
  uint64_t wanted_later = 0;
};

inline bool is_reached(const Mark& mark) {
  return mark.stream == nullptr || mark.stream->is_reached(mark.position);
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_STREAM_H_
