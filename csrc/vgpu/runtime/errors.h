// CUDA's error state: the last error of each thread and the one a dead device keeps returning.
#ifndef STREAMGUARD_VGPU_RUNTIME_ERRORS_H_
#define STREAMGUARD_VGPU_RUNTIME_ERRORS_H_

#include <cuda_runtime_api.h>

namespace streamguard::vgpu {

// Remembers `error` for cudaGetLastError of this thread and returns it. cudaErrorNotReady is an
// answer and not remembered.
cudaError_t fail(cudaError_t error);

// After an unrecoverable failure (a collective that can never end) every call answers `error`.
void set_sticky_error(cudaError_t error);

// The sticky error, or cudaSuccess.
cudaError_t sticky_error();

cudaError_t take_last_error();
cudaError_t peek_last_error();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_ERRORS_H_
