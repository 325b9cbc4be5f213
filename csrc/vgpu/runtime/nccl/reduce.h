// The arithmetic of reductions.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_REDUCE_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_REDUCE_H_

#include <vector>

#include "nccl_abi.h"

namespace streamguard::vgpu::nccl {

// One rank's input. `factor`, in the same type, multiplies every element first; null for none.
struct Operand {
  const void* data;
  const void* factor;
};

// Combines operands in the order given (rank order), so that every rank computes the same bytes.
// 16- and 8-bit floats are accumulated in float32 and rounded once; the mean divides last.
// REQUIRES: `reduction` is a built-in one.
void reduce(void* target, const std::vector<Operand>& operands, size_t count, ncclDataType_t type,
            ncclRedOp_t reduction);

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_REDUCE_H_
