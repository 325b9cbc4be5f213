#pragma once

#include <cstdint>
#include <string_view>

namespace streamguard::collectives {

/// How an op's tensors make up what the members of a group must agree on.
enum class Sizes : uint8_t {
  kNone,        // barriers
  kFirst,       // sizes of argument 0
  kSecond,      // sizes of argument 1
  kPerRankOut,  // argument 0 lists one tensor for each rank
  kPerRankIn,   // argument 1 lists one tensor for each rank
  kExchange,    // argument 1 is split and sent to all, argument 0 received from all
  kToRoot,      // argument 0 lists what the root receives, argument 1 is sent
  kFromRoot,    // argument 1 lists what the root sends, argument 0 is received
  kPeer,        // argument 0 goes to or comes from one peer
};

struct Op {
  std::string_view name;  // of the c10d operator
  uint8_t kind;           // wire-compatible ops share it
  Sizes sizes;
  std::string_view peer;  // name of the argument that holds root or peer
};

// Positions are written to ring files: append only. record.py has the same table.
inline constexpr Op kOps[] = {
    {"allreduce_", 0, Sizes::kFirst, ""},
    {"allreduce_coalesced_", 1, Sizes::kFirst, ""},
    {"broadcast_", 2, Sizes::kFirst, "root_rank"},
    {"reduce_", 3, Sizes::kFirst, "root_rank"},
    {"allgather_", 4, Sizes::kPerRankOut, ""},
    {"_allgather_base_", 4, Sizes::kSecond, ""},
    {"allgather_coalesced_", 5, Sizes::kSecond, ""},
    {"allgather_into_tensor_coalesced_", 6, Sizes::kSecond, ""},
    {"reduce_scatter_", 7, Sizes::kPerRankIn, ""},
    {"_reduce_scatter_base_", 7, Sizes::kFirst, ""},
    {"reduce_scatter_tensor_coalesced_", 8, Sizes::kFirst, ""},
    {"alltoall_", 9, Sizes::kExchange, ""},
    {"alltoall_base_", 9, Sizes::kExchange, ""},
    {"gather_", 10, Sizes::kToRoot, "root_rank"},
    {"gather_into_tensor_", 11, Sizes::kSecond, "root_rank"},
    {"scatter_", 12, Sizes::kFromRoot, "root_rank"},
    {"send", 13, Sizes::kPeer, "dst"},
    {"recv_", 14, Sizes::kPeer, "src"},
    {"recv_any_source_", 15, Sizes::kPeer, ""},
    {"barrier", 16, Sizes::kNone, ""},
    {"monitored_barrier_", 17, Sizes::kNone, ""},
};

}  // namespace streamguard::collectives
