// The driver library: devices, contexts, pointers, errors. Thin over the runtime.
#include <cuda.h>
#include <cuda_runtime_api.h>

#include <cstdio>
#include <cstring>

#include "../context_handle.h"
#include "../device_identity.h"
#include "../export.h"
#include "../internal_api.h"

namespace {

using namespace streamguard::vgpu;

CUcontext context_of(int device) { return static_cast<CUcontext>(context_handle(device)); }

int device_of(CUcontext context) { return device_of_context(context); }

// Runtime and driver share the numbers of their errors.
CUresult as_driver(cudaError_t error) { return static_cast<CUresult>(error); }

bool is_valid(CUdevice device) { return device >= 0 && device < streamguard_vgpu_device_count(); }

}  // namespace

VGPU_API CUresult cuInit(unsigned) {
  return streamguard_vgpu_device_count() > 0 ? CUDA_SUCCESS : CUDA_ERROR_NO_DEVICE;
}

VGPU_API CUresult cuDriverGetVersion(int* version) {
  *version = CUDA_VERSION;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGet(CUdevice* device, int ordinal) {
  if (!is_valid(ordinal)) return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetCount(int* count) {
  *count = streamguard_vgpu_device_count();
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceGetName(char* name, int length, CUdevice device) {
  if (!is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  std::snprintf(name, static_cast<size_t>(length), "%s", streamguard::vgpu::kDeviceName);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDeviceTotalMem_v2(size_t* bytes, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) *bytes = properties.totalGlobalMem;
  return as_driver(error);
}

VGPU_API CUresult cuDeviceGetUuid_v2(CUuuid* uuid, CUdevice device) {
  cudaDeviceProp properties;
  const cudaError_t error = cudaGetDeviceProperties(&properties, device);
  if (error == cudaSuccess) std::memcpy(uuid->bytes, properties.uuid.bytes, sizeof uuid->bytes);
  return as_driver(error);
}

VGPU_API CUresult cuDeviceGetAttribute(int* value, CUdevice_attribute attribute, CUdevice device) {
  return as_driver(cudaDeviceGetAttribute(value, static_cast<cudaDeviceAttr>(attribute), device));
}

VGPU_API CUresult cuDevicePrimaryCtxGetState(CUdevice device, unsigned* flags, int* active) {
  if (!is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *flags = 0;
  *active = 1;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDevicePrimaryCtxRetain(CUcontext* context, CUdevice device) {
  if (!is_valid(device)) return CUDA_ERROR_INVALID_DEVICE;
  *context = context_of(device);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  return is_valid(device) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_DEVICE;
}

VGPU_API CUresult cuCtxGetCurrent(CUcontext* context) {
  int device = 0;
  cudaGetDevice(&device);
  *context = context_of(device);
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuCtxSetCurrent(CUcontext context) {
  if (context == nullptr) return CUDA_SUCCESS;
  return as_driver(cudaSetDevice(device_of(context)));
}

VGPU_API CUresult cuCtxPushCurrent_v2(CUcontext context) { return cuCtxSetCurrent(context); }

VGPU_API CUresult cuCtxPopCurrent_v2(CUcontext* context) { return cuCtxGetCurrent(context); }

VGPU_API CUresult cuCtxGetDevice(CUdevice* device) { return as_driver(cudaGetDevice(device)); }

VGPU_API CUresult cuCtxSynchronize() { return as_driver(cudaDeviceSynchronize()); }

VGPU_API CUresult cuCtxSetLimit(CUlimit, size_t) { return CUDA_SUCCESS; }

VGPU_API CUresult cuGetErrorString(CUresult error, const char** text) {
  *text = cudaGetErrorString(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuGetErrorName(CUresult error, const char** name) {
  *name = cudaGetErrorName(static_cast<cudaError_t>(error));
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuPointerGetAttribute(void* value, CUpointer_attribute attribute,
                                        CUdeviceptr pointer) {
  cudaPointerAttributes attributes;
  const auto* address = reinterpret_cast<const void*>(pointer);
  const cudaError_t error = cudaPointerGetAttributes(&attributes, address);
  if (error != cudaSuccess) return as_driver(error);
  if (attributes.type == cudaMemoryTypeUnregistered) return CUDA_ERROR_INVALID_VALUE;
  const bool on_device = attributes.type == cudaMemoryTypeDevice;
  switch (attribute) {
    case CU_POINTER_ATTRIBUTE_CONTEXT:
      *static_cast<CUcontext*>(value) = context_of(attributes.device);
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
      *static_cast<unsigned*>(value) = on_device ? CU_MEMORYTYPE_DEVICE : CU_MEMORYTYPE_HOST;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
      *static_cast<CUdeviceptr*>(value) = pointer;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *static_cast<int*>(value) = attributes.device;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
      *static_cast<unsigned*>(value) = attributes.type == cudaMemoryTypeManaged ? 1 : 0;
      return CUDA_SUCCESS;
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
      *static_cast<unsigned*>(value) = 0;
      return CUDA_SUCCESS;
    default:
      streamguard_vgpu_log_unsupported("cuPointerGetAttribute with this attribute");
      return CUDA_ERROR_NOT_SUPPORTED;
  }
}

VGPU_API CUresult cuMemGetAddressRange_v2(CUdeviceptr* begin, size_t* bytes, CUdeviceptr pointer) {
  void* found = nullptr;
  size_t size = 0;
  if (streamguard_vgpu_find_memory(reinterpret_cast<const void*>(pointer), &found, &size) == 0) {
    return CUDA_ERROR_NOT_FOUND;
  }
  if (begin != nullptr) *begin = reinterpret_cast<CUdeviceptr>(found);
  if (bytes != nullptr) *bytes = size;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuMemsetD32Async(CUdeviceptr pointer, unsigned value, size_t count,
                                   CUstream stream) {
  return as_driver(
      streamguard_vgpu_fill(reinterpret_cast<void*>(pointer), value, 4, count, stream));
}

VGPU_API CUresult cuMemsetD8Async(CUdeviceptr pointer, unsigned char value, size_t count,
                                  CUstream stream) {
  return as_driver(
      streamguard_vgpu_fill(reinterpret_cast<void*>(pointer), value, 1, count, stream));
}

VGPU_API CUresult cuStreamWriteValue32_v2(CUstream stream, CUdeviceptr pointer, cuuint32_t value,
                                          unsigned) {
  return as_driver(streamguard_vgpu_fill(reinterpret_cast<void*>(pointer), value, 4, 1, stream));
}

// The driver has nothing to report through these callbacks.
VGPU_API CUresult cuLogsRegisterCallback(CUlogsCallback, void*, CUlogsCallbackHandle* handle) {
  *handle = nullptr;
  return CUDA_SUCCESS;
}

VGPU_API CUresult cuLogsUnregisterCallback(CUlogsCallbackHandle) { return CUDA_SUCCESS; }
