// What confirm mode runs on a GPU itself: a kernel that takes a given time and touches no memory.
//
// A library of its own, since it needs nvcc; without it a host function takes the time
// (csrc/hooks/delay.cc). It uses the CUDA runtime that the process has loaded.
#include <cuda_runtime_api.h>

namespace {

__device__ unsigned long long now_ns() {
  unsigned long long time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__global__ void stand_still(unsigned long long time_ns) {
  const unsigned long long begin = now_ns();
  while (now_ns() - begin < time_ns) __nanosleep(1000);
}

}  // namespace

// One thread: other streams keep the rest of the GPU.
extern "C" cudaError_t streamguard_stand_still(cudaStream_t stream, unsigned long long time_ns) {
  stand_still<<<1, 1, 0, stream>>>(time_ns);
  return cudaGetLastError();
}
