// What the preloaded library counts of NCCL: collectives and messages that no operator of
// torch.distributed made.
#pragma once

#include <cstdint>

namespace streamguard::interposer {

inline constexpr const char* kNcclCalls[] = {
    "ncclAllReduce", "ncclReduce",        "ncclBroadcast", "ncclBcast",
    "ncclAllGather", "ncclReduceScatter", "ncclAlltoAll",  "ncclGather",
    "ncclScatter",   "ncclSend",          "ncclRecv",
};
inline constexpr int kNcclCallKinds = sizeof(kNcclCalls) / sizeof(kNcclCalls[0]);

}  // namespace streamguard::interposer

/// Found by dlsym. This thread's nesting of recorded operators; calls are counted while it is 0.
extern "C" int* streamguard_recorded_depth();

/// Found by dlsym. This thread's nesting of NCCL calls that the preloaded library passes on.
extern "C" int* streamguard_nccl_depth();

/// Found by dlsym. How often each of kNcclCalls was called outside of them, since the start.
extern "C" const uint64_t* streamguard_nccl_calls();
