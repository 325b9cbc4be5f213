// Registration and launch of kernels, as nvcc's host code calls them.
#include <cstring>
#include <vector>

#include "export.h"
#include "kernel_registry.h"
#include "kernel_twins.h"
#include "runtime.h"
#include "traced_call.h"

using namespace streamguard::vgpu;

namespace {

// The launch configuration between `<<<...>>>` and the launch stub.
struct CallConfiguration {
  dim3 grid;
  dim3 block;
  size_t shared_bytes;
  void* stream;
};
thread_local std::vector<CallConfiguration> configurations;

constexpr int kMaxThreads = 1024;

cudaError_t launch_function(const void* function, const LaunchShape& shape, cudaStream_t stream) {
  const Kernel* kernel = kernels().find(function);
  // A kernel handle may be passed instead of a host function.
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  return launch(*kernel, shape, stream);
}

}  // namespace

VGPU_API void** __cudaRegisterFatBinary(void*) { return new void*(nullptr); }
VGPU_API void __cudaRegisterFatBinaryEnd(void**) {}
VGPU_API void __cudaUnregisterFatBinary(void** handle) { delete handle; }
VGPU_API char __cudaInitModule(void**) { return 0; }

VGPU_API void __cudaRegisterFunction(void**, const char* host_function, char*, const char* name,
                                     int, uint3*, uint3*, dim3*, dim3*, int*) {
  kernels().add(host_function, name);
}

VGPU_API void __cudaRegisterVar(void**, char* host_variable, char*, const char*, int,
                                size_t size_bytes, int, int) {
  kernels().add_variable(host_variable, size_bytes);
}

VGPU_API void __cudaRegisterManagedVar(void**, void** host_variable, char*, const char*, int,
                                       size_t size_bytes, int, int) {
  kernels().add_variable(host_variable, size_bytes);
  *host_variable = kernels().variable(host_variable);
}

VGPU_API unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared_bytes,
                                              CUstream_st* stream) {
  configurations.push_back({grid, block, shared_bytes, stream});
  return 0;
}

VGPU_API cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared_bytes,
                                                void* stream) {
  if (configurations.empty()) return fail(cudaErrorMissingConfiguration);
  const CallConfiguration configuration = configurations.back();
  configurations.pop_back();
  *grid = configuration.grid;
  *block = configuration.block;
  *shared_bytes = configuration.shared_bytes;
  *static_cast<void**>(stream) = configuration.stream;
  return cudaSuccess;
}

VGPU_API cudaError_t __cudaGetKernel(cudaKernel_t* result, const void* function) {
  const Kernel* kernel = kernels().find(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  *result = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(kernel));
  return cudaSuccess;
}

VGPU_API cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block,
                                        void** arguments, size_t shared_bytes,
                                        cudaStream_t stream) {
  return traced(
      {505, "__cudaLaunchKernel"},
      [&] {
        return launch(*reinterpret_cast<const Kernel*>(kernel), {grid, block, arguments}, stream);
      },
      kernel, grid, block, arguments, shared_bytes, stream);
}

VGPU_API cudaError_t __cudaLaunchKernel_ptsz(cudaKernel_t kernel, dim3 grid, dim3 block,
                                             void** arguments, size_t, cudaStream_t stream) {
  return launch(*reinterpret_cast<const Kernel*>(kernel), {grid, block, arguments},
                stream == nullptr ? cudaStreamPerThread : stream);
}

VGPU_API cudaError_t cudaLaunchKernel(const void* function, dim3 grid, dim3 block, void** arguments,
                                      size_t shared_bytes, cudaStream_t stream) {
  return traced(
      {211, "cudaLaunchKernel"},
      [&] { return launch_function(function, {grid, block, arguments}, stream); }, function, grid,
      block, arguments, shared_bytes, stream);
}

VGPU_API cudaError_t cudaLaunchKernel_ptsz(const void* function, dim3 grid, dim3 block,
                                           void** arguments, size_t, cudaStream_t stream) {
  return launch_function(function, {grid, block, arguments},
                         stream == nullptr ? cudaStreamPerThread : stream);
}

VGPU_API cudaError_t cudaLaunchCooperativeKernel(const void* function, dim3 grid, dim3 block,
                                                 void** arguments, size_t shared_bytes,
                                                 cudaStream_t stream) {
  return traced(
      {269, "cudaLaunchCooperativeKernel"},
      [&] { return launch_function(function, {grid, block, arguments}, stream); }, function, grid,
      block, arguments, shared_bytes, stream);
}

VGPU_API cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* configuration,
                                         const void* function, void** arguments) {
  return traced(
      {430, "cudaLaunchKernelExC"},
      [&] {
        return launch_function(function,
                               {configuration->gridDim, configuration->blockDim, arguments},
                               configuration->stream);
      },
      configuration, function, arguments);
}

VGPU_API cudaError_t cudaGetFuncBySymbol(cudaFunction_t* result, const void* function) {
  return __cudaGetKernel(reinterpret_cast<cudaKernel_t*>(result), function);
}

VGPU_API cudaError_t cudaFuncGetName(const char** name, const void* function) {
  const Kernel* kernel = kernels().find(function);
  if (kernel == nullptr) return fail(cudaErrorInvalidDeviceFunction);
  *name = kernel->name.c_str();
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* attributes, const void*) {
  std::memset(attributes, 0, sizeof *attributes);
  attributes->maxThreadsPerBlock = kMaxThreads;
  attributes->numRegs = 32;
  attributes->binaryVersion = 90;
  attributes->ptxVersion = 90;
  attributes->maxDynamicSharedSizeBytes = 227 << 10;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncSetAttribute(const void*, cudaFuncAttribute, int) {
  return cudaSuccess;
}

VGPU_API cudaError_t cudaFuncSetCacheConfig(const void*, cudaFuncCache) { return cudaSuccess; }

VGPU_API cudaError_t cudaKernelSetAttributeForDevice(cudaKernel_t, cudaFuncAttribute, int, int) {
  return cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks,
                                                                            const void*,
                                                                            int threads_per_block,
                                                                            size_t, unsigned) {
  constexpr int kThreadsPerMultiprocessor = 2048;
  if (threads_per_block <= 0 || threads_per_block > kMaxThreads) {
    return fail(cudaErrorInvalidValue);
  }
  *blocks = kThreadsPerMultiprocessor / threads_per_block;
  return cudaSuccess;
}

VGPU_API cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks,
                                                                   const void* function,
                                                                   int threads_per_block,
                                                                   size_t shared_bytes) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads_per_block,
                                                                shared_bytes, 0);
}

VGPU_API cudaError_t cudaOccupancyAvailableDynamicSMemPerBlock(size_t* bytes, const void*, int,
                                                               int) {
  *bytes = 227 << 10;
  return cudaSuccess;
}
