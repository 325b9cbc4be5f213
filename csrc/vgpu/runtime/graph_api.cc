// cudaGraph*: graphs, executable graphs, user objects.
#include "api_log.h"
#include "export.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

template <class Body>
cudaError_t with_graph(cudaGraph_t handle, Body body) {
  return locked([&](Lock& lock) {
    const auto found = runtime().graphs.find(reinterpret_cast<const Graph*>(handle));
    if (found == runtime().graphs.end()) return cudaErrorInvalidValue;
    return body(lock, *found->second);
  });
}

template <class Body>
cudaError_t with_executable(cudaGraphExec_t handle, Body body) {
  return locked([&](Lock& lock) {
    const auto found = runtime().executables.find(reinterpret_cast<const GraphExec*>(handle));
    if (found == runtime().executables.end()) return cudaErrorInvalidValue;
    return body(lock, found->second);
  });
}

// Drops references; destructors of objects run without the lock, they are the user's code.
void release_objects(Lock& lock, const std::unordered_map<UserObject*, unsigned>& references) {
  std::vector<UserObject*> dead;
  for (const auto& [object, count] : references) {
    object->references -= count < object->references ? count : object->references;
    if (object->references == 0) dead.push_back(object);
  }
  lock.unlock();
  for (UserObject* object : dead) {
    object->destroy(object->object);
    delete object;
  }
  lock.lock();
}

cudaError_t instantiate_graph(cudaGraphExec_t* result, cudaGraph_t handle) {
  return with_graph(handle, [&](Lock&, Graph& graph) {
    const bool latest_first = runtime().executor.policy().token() != "eager";
    std::shared_ptr<GraphExec> executable = instantiate(graph, latest_first);
    for (auto& [object, count] : executable->user_objects) object->references += count;
    *result = reinterpret_cast<cudaGraphExec_t>(executable.get());
    runtime().executables[executable.get()] = std::move(executable);
    return cudaSuccess;
  });
}

// External nodes act as if the whole launch were the node: coarser than CUDA, never unordered.
void record_external(GraphExec& executable, const Mark& launch) {
  for (Event* event : executable.external_records) {
    if (runtime().events.count(event) == 0) continue;
    event->captured_by = nullptr;
    event->latest = std::make_shared<EventRecord>();
    event->latest->mark = launch;
    event->latest->completed_ms = now_ms();
  }
}

cudaError_t launch_graph(cudaGraphExec_t handle, cudaStream_t stream_handle) {
  return with_executable(handle, [&](Lock& lock, const std::shared_ptr<GraphExec>& executable) {
    Stream* stream = runtime().streams.resolve(stream_handle, current_device());
    if (stream == nullptr) return cudaErrorInvalidResourceHandle;
    runtime().streams.note_use(*stream);
    log_line("graph_launch stream=%d nodes=%zu", stream->index, executable->nodes.size());
    // Launches of one executable graph are serialised, whatever the stream.
    std::vector<Mark> dependencies{executable->last_launch};
    for (Event* event : executable->external_waits) {
      if (runtime().events.count(event) == 0 || event->latest == nullptr) continue;
      dependencies.push_back(event->latest->mark);
    }
    const bool captures = stream->is_capturing();
    if (!captures) {
      executable->last_launch = {stream, stream->issued + 1};
      record_external(*executable, executable->last_launch);
    }
    return enqueue(lock, *stream, cudaGraphNodeTypeGraph, std::make_shared<GraphLaunch>(executable),
                   std::move(dependencies));
  });
}

}  // namespace

VGPU_API cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned flags) {
  if (flags != 0) return fail(cudaErrorInvalidValue);
  return locked([&](Lock&) {
    auto created = std::make_shared<Graph>();
    *graph = reinterpret_cast<cudaGraph_t>(created.get());
    runtime().graphs[created.get()] = std::move(created);
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphDestroy(cudaGraph_t handle) {
  return with_graph(handle, [](Lock& lock, Graph& graph) {
    const auto objects = graph.user_objects;
    runtime().graphs.erase(&graph);
    release_objects(lock, objects);
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphGetNodes(cudaGraph_t handle, cudaGraphNode_t* nodes, size_t* count) {
  return with_graph(handle, [&](Lock&, Graph& graph) {
    if (nodes == nullptr) {
      *count = graph.nodes.size();
      return cudaSuccess;
    }
    for (size_t i = 0; i < *count; ++i) {
      nodes[i] = i < graph.nodes.size() ? reinterpret_cast<cudaGraphNode_t>(graph.nodes[i].get())
                                        : nullptr;
    }
    if (*count > graph.nodes.size()) *count = graph.nodes.size();
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphNodeGetType(cudaGraphNode_t node, cudaGraphNodeType* type) {
  *type = reinterpret_cast<const GraphNode*>(node)->type;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t handle,
                                                  cudaGraphNode_t* dependencies,
                                                  cudaGraphEdgeData* edges, size_t* count) {
  return locked([&](Lock&) {
    const auto& node = *reinterpret_cast<const GraphNode*>(handle);
    if (edges != nullptr) return cudaErrorNotSupported;
    if (dependencies != nullptr) {
      for (size_t i = 0; i < *count && i < node.dependencies.size(); ++i) {
        dependencies[i] = reinterpret_cast<cudaGraphNode_t>(node.dependencies[i]);
      }
    }
    *count = node.dependencies.size();
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                   unsigned long long) {
  return instantiate_graph(executable, graph);
}

VGPU_API cudaError_t cudaGraphInstantiate(cudaGraphExec_t* executable, cudaGraph_t graph,
                                          unsigned long long) {
  return instantiate_graph(executable, graph);
}

VGPU_API cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t* executable, cudaGraph_t graph,
                                                    cudaGraphInstantiateParams* parameters) {
  parameters->result_out = cudaGraphInstantiateSuccess;
  parameters->errNode_out = nullptr;
  return instantiate_graph(executable, graph);
}

VGPU_API cudaError_t cudaGraphUpload(cudaGraphExec_t handle, cudaStream_t) {
  return with_executable(handle,
                         [](Lock&, const std::shared_ptr<GraphExec>&) { return cudaSuccess; });
}

VGPU_API cudaError_t cudaGraphLaunch(cudaGraphExec_t executable, cudaStream_t stream) {
  return traced(
      {311, "cudaGraphLaunch"}, [&] { return launch_graph(executable, stream); }, executable,
      stream);
}

VGPU_API cudaError_t cudaGraphExecDestroy(cudaGraphExec_t handle) {
  return with_executable(handle, [](Lock& lock, std::shared_ptr<GraphExec> executable) {
    // Launches under way keep the nodes; their work still completes.
    runtime().executables.erase(executable.get());
    release_objects(lock, executable->user_objects);
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaUserObjectCreate(cudaUserObject_t* result, void* object,
                                          cudaHostFn_t destroy, unsigned references, unsigned) {
  if (destroy == nullptr || references == 0) return fail(cudaErrorInvalidValue);
  auto created = std::make_unique<UserObject>(UserObject{object, destroy, references});
  *result = reinterpret_cast<cudaUserObject_t>(created.release());
  return cudaSuccess;
}

VGPU_API cudaError_t cudaUserObjectRetain(cudaUserObject_t object, unsigned count) {
  return locked([&](Lock&) {
    reinterpret_cast<UserObject*>(object)->references += count;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaUserObjectRelease(cudaUserObject_t object, unsigned count) {
  return locked([&](Lock& lock) {
    release_objects(lock, {{reinterpret_cast<UserObject*>(object), count}});
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphRetainUserObject(cudaGraph_t handle, cudaUserObject_t object_handle,
                                               unsigned count, unsigned flags) {
  return with_graph(handle, [&](Lock&, Graph& graph) {
    auto* object = reinterpret_cast<UserObject*>(object_handle);
    if ((flags & cudaGraphUserObjectMove) == 0) object->references += count;
    graph.user_objects[object] += count;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaGraphReleaseUserObject(cudaGraph_t handle, cudaUserObject_t object_handle,
                                                unsigned count) {
  return with_graph(handle, [&](Lock& lock, Graph& graph) {
    auto* object = reinterpret_cast<UserObject*>(object_handle);
    graph.user_objects.erase(object);
    release_objects(lock, {{object, count}});
    return cudaSuccess;
  });
}
