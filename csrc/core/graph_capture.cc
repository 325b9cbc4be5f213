#include "core/graph_capture.h"

namespace streamguard::core {

std::optional<GraphBranch> GraphCapture::branch_of(StreamId stream) const {
  for (GraphBranch branch = 0; branch < branches_.size(); ++branch) {
    if (branches_[branch].stream == stream) return branch;
  }
  return std::nullopt;
}

GraphBranch GraphCapture::add_branch(StreamId stream) {
  branches_.push_back({stream, {}, 0});
  graph_.branch_count = branches_.size();
  return static_cast<GraphBranch>(branches_.size() - 1);
}

void GraphCapture::add_op(GraphBranch branch, CommunicatorId communicator, AccessSpan accesses,
                          OpInfo info) {
  Branch& on = branches_[branch];
  on.known.raise(lane(branch), ++on.op_count);
  GraphStep step;
  step.kind = GraphStep::Kind::kRun;
  step.branch = branch;
  step.communicator = communicator;
  step.info = info;
  step.first_access = graph_.accesses.size();
  step.access_count = accesses.size();
  graph_.accesses.insert(graph_.accesses.end(), accesses.begin(), accesses.end());
  graph_.steps.push_back(step);
}

GraphEventSlot GraphCapture::add_record(GraphBranch branch) {
  const auto slot = static_cast<GraphEventSlot>(records_.size());
  records_.push_back(branches_[branch].known);
  graph_.slot_count = records_.size();
  GraphStep step;
  step.kind = GraphStep::Kind::kRecord;
  step.branch = branch;
  step.slot = slot;
  graph_.steps.push_back(step);
  return slot;
}

void GraphCapture::add_wait(GraphBranch branch, GraphEventSlot slot) {
  branches_[branch].known.join(records_[slot], [](LaneId) {});
  GraphStep step;
  step.kind = GraphStep::Kind::kWait;
  step.branch = branch;
  step.slot = slot;
  graph_.steps.push_back(step);
}

std::optional<Graph> GraphCapture::finish() const {
  const VectorClock& origin = branches_.front().known;
  for (GraphBranch branch = 1; branch < branches_.size(); ++branch) {
    if (!origin.knows(lane(branch), branches_[branch].op_count)) return std::nullopt;
  }
  return graph_;
}

}  // namespace streamguard::core
