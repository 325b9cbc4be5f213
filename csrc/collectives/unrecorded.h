#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "nccl_profiler/call_log.h"

namespace streamguard::collectives {

/// NCCL's calls that no recorded op made.
struct UnrecordedCalls {
  /// Names and numbers: what the preloaded library heard, and what the profiler plugin heard
  /// besides.
  std::map<std::string, uint64_t> counts;
  /// The newest of them, oldest first, where NCCL has loaded the plugin.
  std::vector<nccl_profiler::NotedCall> newest;
  /// Whether NCCL has loaded it.
  bool is_plugin_loaded = false;
};

/// Nothing where the library that counts them is not preloaded.
std::optional<UnrecordedCalls> unrecorded_nccl_calls();

}  // namespace streamguard::collectives
