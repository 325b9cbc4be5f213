// Which communicators exist, and the calls a thread has gathered between group start and end.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_HANDLES_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_HANDLES_H_

#include <functional>
#include <memory>

#include "operation.h"

namespace streamguard::vgpu::nccl {

// Null for a handle that was never given out or was destroyed.
std::shared_ptr<Communicator> find(ncclComm_t handle);
ncclComm_t give_out(const std::shared_ptr<Communicator>& communicator);
void withdraw(ncclComm_t handle);

// Runs the call now, or at the end of the group that this thread has open.
ncclResult_t submit(const std::shared_ptr<Communicator>& communicator, Call call,
                    cudaStream_t stream);
// The same for the rest of joining, after announce().
ncclResult_t submit_join(const std::shared_ptr<Communicator>& communicator);

void open_group();
ncclResult_t close_group();

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_HANDLES_H_
