// CUDA graphs: captured nodes, executable copies, one launch.
#ifndef STREAMGUARD_VGPU_RUNTIME_GRAPH_H_
#define STREAMGUARD_VGPU_RUNTIME_GRAPH_H_

#include <atomic>
#include <thread>
#include <unordered_map>
#include <vector>

#include "work.h"

namespace streamguard::vgpu {

struct Event;
struct Graph;

struct GraphNode {
  Graph* graph = nullptr;
  size_t index = 0;  // capture order, which is a topological order
  cudaGraphNodeType type = cudaGraphNodeTypeEmpty;
  Work work;
  std::vector<GraphNode*> dependencies;
};

// cudaUserObject_t: calls `destroy` when the last reference goes.
struct UserObject {
  void* object = nullptr;
  cudaHostFn_t destroy = nullptr;
  unsigned references = 0;
};

// Thread safety: guarded by the runtime's lock.
struct Graph {
  std::vector<std::unique_ptr<GraphNode>> nodes;
  std::unordered_map<UserObject*, unsigned> user_objects;
  // Events recorded or waited for by external nodes: they act at each launch.
  std::vector<Event*> external_records;
  std::vector<Event*> external_waits;
  uint64_t capture_id = 0;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  std::thread::id capturing_thread;
  bool is_invalidated = false;

  GraphNode* add(cudaGraphNodeType type, Work work, std::vector<GraphNode*> dependencies);
};

// cudaGraphExec_t. Immutable but for `last_launch`: CUDA serialises launches of one executable.
struct GraphExec {
  struct Node {
    Work work;
    std::vector<size_t> dependencies;
  };
  std::vector<Node> nodes;  // in the order they run
  std::vector<Event*> external_records;
  std::vector<Event*> external_waits;
  std::unordered_map<UserObject*, unsigned> user_objects;
  Mark last_launch;
};

// `latest_first`: among ready nodes the one captured last runs first, so that branches which miss
// an edge between them run against capture order; else capture order.
std::shared_ptr<GraphExec> instantiate(const Graph& graph, bool latest_first);

// One launch as a step: goes on at the node where it had to wait.
class GraphLaunch final : public Step {
 public:
  explicit GraphLaunch(std::shared_ptr<GraphExec> executable)
      : executable_(std::move(executable)) {}
  Outcome run() override;
  Demand demand() const override;
  std::string describe() const override;

 private:
  const std::shared_ptr<GraphExec> executable_;
  // Read by threads that look for demands while the launch runs.
  std::atomic<size_t> next_{0};
};

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_GRAPH_H_
