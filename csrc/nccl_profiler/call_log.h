// What the profiler plugin notes of NCCL's calls that no operator of torch.distributed made.
#pragma once

#include <cstdint>

#include "interposer/nccl_calls.h"

namespace streamguard::nccl_profiler {

/// One such call. What NCCL has not told is 0: buffers come when a call is queued for launch, and
/// not at all for those of a captured graph, of a copy engine and for most broadcasts.
struct NotedCall {
  uint64_t number;        // 1 + its position among all, written last; 0 while it is written
  uint64_t time_ns;       // wall clock
  uint64_t communicator;  // the same number on all of its ranks
  uint64_t count;         // elements, as the program gave them
  uint64_t send;
  uint64_t receive;
  uint64_t stream;
  int32_t rank;
  int32_t ranks;
  int32_t peer;       // root, destination or source; -1 for none, or none told
  uint8_t was_heard;  // it went through the preloaded library, which has counted it
  uint8_t is_captured;
  char function[16];  // as NCCL names it: "AllReduce", "Send"
  char type[18];      // "ncclFloat32"
};

constexpr uint64_t kNotedCalls = 256;  // the newest ones are kept
constexpr int kOtherCall = interposer::kNcclCallKinds;

struct CallLog {
  uint64_t communicators;                           // that NCCL has announced
  uint64_t counts[interposer::kNcclCallKinds + 1];  // calls that went around the preloaded library
  uint64_t next;                                    // calls noted
  NotedCall calls[kNotedCalls];
};

}  // namespace streamguard::nccl_profiler

/// The preloaded library's: found by dlsym. The plugin says where its log is, who reports asks.
extern "C" void streamguard_set_nccl_call_log(const streamguard::nccl_profiler::CallLog* log);
extern "C" const streamguard::nccl_profiler::CallLog* streamguard_nccl_call_log();
