// Stream capture: recording work into a graph instead of queueing it.
#include <algorithm>
#include <unordered_set>

#include "api_log.h"
#include "export.h"
#include "runtime.h"

namespace streamguard::vgpu {

thread_local cudaStreamCaptureMode thread_capture_mode = cudaStreamCaptureModeGlobal;

}  // namespace streamguard::vgpu

using namespace streamguard::vgpu;

namespace {

cudaError_t begin(Stream& stream, std::shared_ptr<Graph> graph, std::vector<GraphNode*> frontier,
                  cudaStreamCaptureMode mode) {
  if (stream.kind == StreamKind::kLegacy) return cudaErrorStreamCaptureUnsupported;
  if (stream.is_capturing()) return cudaErrorIllegalState;
  graph->capture_id = runtime().next_capture_id++;
  graph->mode = mode;
  graph->capturing_thread = std::this_thread::get_id();
  runtime().captures.push_back(graph.get());
  runtime().streams.note_use(stream);
  log_line("begin_capture stream=%d", stream.index);
  stream.capture = {std::move(graph), std::move(frontier), true};
  return cudaSuccess;
}

// Nodes from which some node of `frontier` can be reached, themselves included.
std::unordered_set<const GraphNode*> ancestors_of(const std::vector<GraphNode*>& frontier) {
  std::unordered_set<const GraphNode*> seen;
  std::vector<const GraphNode*> open(frontier.begin(), frontier.end());
  while (!open.empty()) {
    const GraphNode* node = open.back();
    open.pop_back();
    if (!seen.insert(node).second) continue;
    open.insert(open.end(), node->dependencies.begin(), node->dependencies.end());
  }
  return seen;
}

// Ends the capture on every stream that took part. False when a fork was not joined.
bool leave_capture(const std::shared_ptr<Graph>& graph, const Stream& origin) {
  const auto joined = ancestors_of(origin.capture.frontier);
  bool all_joined = true;
  for (int device = 0; device < device_count(); ++device) {
    for (Stream* stream : runtime().streams.of_device(device)) {
      if (stream->capture.graph != graph) continue;
      for (const GraphNode* node : stream->capture.frontier) {
        all_joined = all_joined && joined.count(node) != 0;
      }
      stream->capture = {};
    }
  }
  auto& captures = runtime().captures;
  captures.erase(std::remove(captures.begin(), captures.end(), graph.get()), captures.end());
  return all_joined;
}

}  // namespace

VGPU_API cudaError_t cudaThreadExchangeStreamCaptureMode(cudaStreamCaptureMode* mode) {
  std::swap(*mode, thread_capture_mode);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaStreamBeginCapture(cudaStream_t handle, cudaStreamCaptureMode mode) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    return begin(stream, std::make_shared<Graph>(), {}, mode);
  });
}

VGPU_API cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t handle, cudaGraph_t graph_handle,
                                                   const cudaGraphNode_t* dependencies,
                                                   const cudaGraphEdgeData*, size_t count,
                                                   cudaStreamCaptureMode mode) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    const auto found = runtime().graphs.find(reinterpret_cast<const Graph*>(graph_handle));
    if (found == runtime().graphs.end()) return cudaErrorInvalidValue;
    std::vector<GraphNode*> frontier;
    for (size_t i = 0; i < count; ++i) {
      frontier.push_back(reinterpret_cast<GraphNode*>(dependencies[i]));
    }
    return begin(stream, found->second, std::move(frontier), mode);
  });
}

VGPU_API cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t* result) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *result = nullptr;
    if (!stream.is_capturing()) return cudaErrorIllegalState;
    if (!stream.capture.is_origin) return cudaErrorStreamCaptureUnmatched;
    const std::shared_ptr<Graph> graph = stream.capture.graph;
    if (graph->mode != cudaStreamCaptureModeRelaxed &&
        graph->capturing_thread != std::this_thread::get_id()) {
      return cudaErrorStreamCaptureWrongThread;
    }
    const bool all_joined = leave_capture(graph, stream);
    log_line("end_capture stream=%d nodes=%zu", stream.index, graph->nodes.size());
    if (graph->is_invalidated) {
      runtime().graphs.erase(graph.get());
      return cudaErrorStreamCaptureInvalidated;
    }
    if (!all_joined) {
      runtime().graphs.erase(graph.get());
      return cudaErrorStreamCaptureUnjoined;
    }
    runtime().graphs[graph.get()] = graph;
    *result = reinterpret_cast<cudaGraph_t>(graph.get());
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamIsCapturing(cudaStream_t handle, cudaStreamCaptureStatus* status) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *status = !stream.is_capturing()                 ? cudaStreamCaptureStatusNone
              : stream.capture.graph->is_invalidated ? cudaStreamCaptureStatusInvalidated
                                                     : cudaStreamCaptureStatusActive;
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamGetCaptureInfo(cudaStream_t handle, cudaStreamCaptureStatus* status,
                                              unsigned long long* id, cudaGraph_t* graph,
                                              const cudaGraphNode_t** dependencies,
                                              const cudaGraphEdgeData** edges, size_t* count) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    *status = cudaStreamCaptureStatusNone;
    if (!stream.is_capturing()) return cudaSuccess;
    Graph& captured = *stream.capture.graph;
    *status = captured.is_invalidated ? cudaStreamCaptureStatusInvalidated
                                      : cudaStreamCaptureStatusActive;
    if (id != nullptr) *id = captured.capture_id;
    if (graph != nullptr) {
      // Callers add nodes and user objects through the handle while the capture runs.
      runtime().graphs[&captured] = stream.capture.graph;
      *graph = reinterpret_cast<cudaGraph_t>(&captured);
    }
    if (dependencies != nullptr) {
      *dependencies = reinterpret_cast<const cudaGraphNode_t*>(stream.capture.frontier.data());
    }
    if (edges != nullptr) *edges = nullptr;
    if (count != nullptr) *count = stream.capture.frontier.size();
    return cudaSuccess;
  });
}

VGPU_API cudaError_t cudaStreamUpdateCaptureDependencies(cudaStream_t handle,
                                                         cudaGraphNode_t* dependencies,
                                                         const cudaGraphEdgeData*, size_t count,
                                                         unsigned flags) {
  return with_stream(handle, [&](Lock&, Stream& stream) {
    if (!stream.is_capturing()) return cudaErrorIllegalState;
    std::vector<GraphNode*>& frontier = stream.capture.frontier;
    if (flags == cudaStreamSetCaptureDependencies) frontier.clear();
    for (size_t i = 0; i < count; ++i) {
      frontier.push_back(reinterpret_cast<GraphNode*>(dependencies[i]));
    }
    return cudaSuccess;
  });
}
