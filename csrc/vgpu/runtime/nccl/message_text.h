// Messages in words.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_MESSAGE_TEXT_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_MESSAGE_TEXT_H_

#include <string>

#include "board.h"

namespace streamguard::vgpu::nccl {

// "all_reduce(count=2, float32, sum)".
std::string describe(const Message& message);

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_MESSAGE_TEXT_H_
