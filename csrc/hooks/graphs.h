#pragma once

#include <cstdint>
#include <optional>

namespace streamguard::hooks {

// CUDA graphs. While a stream captures, the engine stores what is issued to it; nothing runs. Each
// replay then runs the stored ops as one op of the current stream. Called under the GIL.

/// The current stream has begun to capture. Returns: a number that stands for that stream.
uint32_t begin_capture();

/// The capture that `origin` began ends. Returns: the graph; nothing where CUDA refuses it, or when
/// nobody watches.
std::optional<uint32_t> end_capture(uint32_t origin);

/// The graph is about to be launched on the current stream: puts in the waits that it lacks, when
/// waits are enforced.
void order_replay(uint32_t graph);

/// The graph was launched on the current stream.
void replay_graph(uint32_t graph);

/// A graph was launched whose capture nobody watched.
void unknown_graph_replayed();

/// The graph is gone. Safe at interpreter exit and for a graph of an earlier session.
void destroy_graph(uint32_t graph);

}  // namespace streamguard::hooks
