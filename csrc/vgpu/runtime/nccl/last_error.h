// The text of the process's last NCCL error: torch asks for it without naming a communicator.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_LAST_ERROR_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_LAST_ERROR_H_

#include <string>

namespace streamguard::vgpu::nccl {

// Thread safety: both from any thread.
void set_last_error(const std::string& text);
std::string last_error();

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_LAST_ERROR_H_
