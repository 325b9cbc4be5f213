// Modules and launches through the driver (Triton, NVRTC): kernels have a name, and do what their
// host twin does.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include "../export.h"
#include "../internal_api.h"

namespace {

CUresult make_module(CUmodule* module) {
  *module = reinterpret_cast<CUmodule>(new char);
  return CUDA_SUCCESS;
}

CUresult launch(CUfunction function, dim3 grid, dim3 block, void** arguments, CUstream stream) {
  return static_cast<CUresult>(streamguard_vgpu_launch(function, grid, block, arguments, stream));
}

}  // namespace

VGPU_API CUresult cuModuleLoad(CUmodule* module, const char*) { return make_module(module); }

VGPU_API CUresult cuModuleLoadData(CUmodule* module, const void*) { return make_module(module); }

VGPU_API CUresult cuModuleLoadDataEx(CUmodule* module, const void*, unsigned, CUjit_option*,
                                     void**) {
  return make_module(module);
}

VGPU_API CUresult cuModuleUnload(CUmodule module) {
  delete reinterpret_cast<char*>(module);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuModuleGetFunction(CUfunction* function, CUmodule, const char* name) {
  *function = static_cast<CUfunction>(streamguard_vgpu_kernel(name));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuFuncGetName(const char** name, CUfunction function) {
  *name = streamguard_vgpu_kernel_name(function);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuFuncGetAttribute(int* value, CUfunction_attribute attribute, CUfunction) {
  switch (attribute) {
    case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
      *value = 1024;
      break;
    case CU_FUNC_ATTRIBUTE_NUM_REGS:
      *value = 32;
      break;
    default:
      *value = 0;
      break;
  }
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuFuncSetAttribute(CUfunction, CUfunction_attribute, int) { return CUDA_SUCCESS; }

VGPU_API CUresult cuFuncSetCacheConfig(CUfunction, CUfunc_cache) { return CUDA_SUCCESS; }

VGPU_API CUresult cuFuncLoad(CUfunction) { return CUDA_SUCCESS; }

VGPU_API CUresult cuLaunchKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                 unsigned grid_z, unsigned block_x, unsigned block_y,
                                 unsigned block_z, unsigned, CUstream stream, void** arguments,
                                 void**) {
  return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments, stream);
}

VGPU_API CUresult cuLaunchKernelEx(const CUlaunchConfig* configuration, CUfunction function,
                                   void** arguments, void**) {
  const CUlaunchConfig& shape = *configuration;
  return launch(function, {shape.gridDimX, shape.gridDimY, shape.gridDimZ},
                {shape.blockDimX, shape.blockDimY, shape.blockDimZ}, arguments, shape.hStream);
}

VGPU_API CUresult cuLaunchCooperativeKernel(CUfunction function, unsigned grid_x, unsigned grid_y,
                                            unsigned grid_z, unsigned block_x, unsigned block_y,
                                            unsigned block_z, unsigned, CUstream stream,
                                            void** arguments) {
  return launch(function, {grid_x, grid_y, grid_z}, {block_x, block_y, block_z}, arguments, stream);
}

VGPU_API CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, CUfunction,
                                                              int threads_per_block, size_t) {
  if (threads_per_block <= 0 || threads_per_block > 1024) return CUDA_ERROR_INVALID_VALUE;
  *blocks = 2048 / threads_per_block;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuOccupancyMaxActiveClusters(int* clusters, CUfunction, const CUlaunchConfig*) {
  *clusters = 1;
  return CUDA_SUCCESS;
}
