#include "graph.h"

#include <algorithm>
#include <queue>

namespace streamguard::vgpu {
namespace {

std::vector<size_t> order_latest_first(const Graph& graph) {
  std::vector<size_t> missing(graph.nodes.size());
  std::vector<std::vector<size_t>> successors(graph.nodes.size());
  std::priority_queue<size_t> ready;
  for (const auto& node : graph.nodes) {
    missing[node->index] = node->dependencies.size();
    for (const GraphNode* dependency : node->dependencies) {
      successors[dependency->index].push_back(node->index);
    }
    if (node->dependencies.empty()) ready.push(node->index);
  }
  std::vector<size_t> order;
  while (!ready.empty()) {
    const size_t index = ready.top();
    ready.pop();
    order.push_back(index);
    for (const size_t successor : successors[index]) {
      if (--missing[successor] == 0) ready.push(successor);
    }
  }
  return order;
}

}  // namespace

GraphNode* Graph::add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> dependencies) {
  nodes.push_back(std::make_unique<GraphNode>());
  GraphNode* node = nodes.back().get();
  node->graph = this;
  node->index = nodes.size() - 1;
  node->type = type;
  node->work = std::move(work);
  node->dependencies = std::move(dependencies);
  return node;
}

std::shared_ptr<GraphExec> instantiate(const Graph& graph, bool latest_first) {
  auto executable = std::make_shared<GraphExec>();
  executable->external_records = graph.external_records;
  executable->external_waits = graph.external_waits;
  executable->user_objects = graph.user_objects;
  std::vector<size_t> order;
  if (latest_first) {
    order = order_latest_first(graph);
  } else {
    for (size_t index = 0; index < graph.nodes.size(); ++index) order.push_back(index);
  }
  for (const size_t index : order) {
    const GraphNode& node = *graph.nodes[index];
    GraphExec::Node copy;
    copy.work = node.work;
    for (const GraphNode* dependency : node.dependencies) {
      copy.dependencies.push_back(dependency->index);
    }
    executable->nodes.push_back(std::move(copy));
  }
  return executable;
}

Outcome GraphLaunch::run() {
  for (; next_ < executable_->nodes.size(); ++next_) {
    const Outcome outcome = perform(executable_->nodes[next_].work);
    if (outcome != Outcome::kDone) return outcome;
  }
  return Outcome::kDone;
}

Demand GraphLaunch::demand() const {
  Demand most = Demand::kNone;
  for (size_t index = next_; index < executable_->nodes.size(); ++index) {
    const auto* step = std::get_if<std::shared_ptr<Step>>(&executable_->nodes[index].work);
    if (step != nullptr) most = std::max(most, (*step)->demand());
  }
  return most;
}

std::string GraphLaunch::describe() const {
  const std::string done = "graph launch, " + std::to_string(next_) + " of " +
                           std::to_string(executable_->nodes.size()) + " nodes done";
  if (next_ >= executable_->nodes.size()) return done;
  const auto* step = std::get_if<std::shared_ptr<Step>>(&executable_->nodes[next_].work);
  return step == nullptr ? done : done + ", at " + (*step)->describe();
}

}  // namespace streamguard::vgpu
