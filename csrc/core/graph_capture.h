// A graph while it is captured, and what it runs when launched.
#ifndef STREAMGUARD_CORE_GRAPH_CAPTURE_H_
#define STREAMGUARD_CORE_GRAPH_CAPTURE_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/access.h"
#include "core/ids.h"
#include "core/vector_clock.h"

namespace streamguard::core {

// Position of a record inside one graph.
using GraphEventSlot = std::uint32_t;
using GraphBranch = std::uint32_t;

// One captured call, in capture order.
struct GraphStep {
  enum class Kind : std::uint8_t { kRun, kRecord, kWait };

  Kind kind = Kind::kRun;
  GraphBranch branch = 0;
  GraphEventSlot slot = 0;                        // of kRecord and kWait
  CommunicatorId communicator = kNoCommunicator;  // of kRun
  OpInfo info;                                    // of kRun
  std::size_t first_access = 0;                   // of kRun
  std::size_t access_count = 0;
};

// An executable graph: branch 0 is the origin.
struct Graph {
  std::vector<GraphStep> steps;
  std::vector<Access> accesses;  // addresses and blocks are baked in
  std::size_t branch_count = 0;
  std::size_t slot_count = 0;

  AccessSpan accesses_of(const GraphStep& step) const {
    return {accesses.data() + step.first_access, step.access_count};
  }
};

// Collects the calls on capturing streams. Nothing runs meanwhile.
//
// Thread safety: none.
// Invariants:
//   1. A stream is in at most one branch; the origin is branch 0.
//   2. A branch other than 0 begins with a wait for a record of the same capture.
class GraphCapture {
 public:
  explicit GraphCapture(StreamId origin) { add_branch(origin); }

  StreamId origin() const { return branches_.front().stream; }
  std::optional<GraphBranch> branch_of(StreamId stream) const;
  GraphBranch add_branch(StreamId stream);
  void add_op(GraphBranch branch, CommunicatorId communicator, AccessSpan accesses, OpInfo info);
  GraphEventSlot add_record(GraphBranch branch);
  void add_wait(GraphBranch branch, GraphEventSlot slot);
  // Nothing when a branch has work that the origin never waited for, as CUDA refuses it.
  std::optional<Graph> finish() const;
  const std::vector<Access>& accesses() const { return graph_.accesses; }

 private:
  struct Branch {
    StreamId stream;
    VectorClock known;  // lanes are branches: which of their steps come before the next one here
    Epoch op_count = 0;
  };

  static LaneId lane(GraphBranch branch) { return LaneId{branch}; }

  Graph graph_;
  std::vector<Branch> branches_;
  std::vector<VectorClock> records_;  // index: slot
};

}  // namespace streamguard::core

#endif  // STREAMGUARD_CORE_GRAPH_CAPTURE_H_
