// Code loaded at run time, device variables, driver entry points.
#include <dlfcn.h>

#include <string>

#include "api_log.h"
#include "export.h"
#include "kernel_registry.h"
#include "runtime.h"

using namespace streamguard::vgpu;

namespace {

// The driver library lies beside this one; it is normally loaded already.
void* driver_library() {
  static void* const kLibrary = []() -> void* {
    if (void* loaded = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD); loaded != nullptr) {
      return loaded;
    }
    Dl_info own{};
    dladdr(reinterpret_cast<const void*>(&runtime), &own);
    const std::string path = own.dli_fname;
    return dlopen((path.substr(0, path.rfind('/') + 1) + "libcuda.so.1").c_str(),
                  RTLD_NOW | RTLD_GLOBAL);
  }();
  return kLibrary;
}

void* driver_function(const std::string& name) {
  if (driver_library() == nullptr) return nullptr;
  // The versioned function is the current one; the plain name is an older ABI where both exist.
  for (const char* version : {"_v3", "_v2", ""}) {
    void* function = dlsym(driver_library(), (name + version).c_str());
    if (function != nullptr) return function;
  }
  return nullptr;
}

}  // namespace

VGPU_API cudaError_t cudaGetDriverEntryPointByVersion(const char* name, void** function, unsigned,
                                                      unsigned long long,
                                                      cudaDriverEntryPointQueryResult* result) {
  *function = driver_function(name);
  if (*function == nullptr) log_line("driver_entry_point missing=%s", name);
  if (result != nullptr) {
    *result =
        *function != nullptr ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  }
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGetDriverEntryPoint(const char* name, void** function,
                                             unsigned long long flags,
                                             cudaDriverEntryPointQueryResult* result) {
  return cudaGetDriverEntryPointByVersion(name, function, CUDART_VERSION, flags, result);
}

VGPU_API cudaError_t cudaLibraryLoadData(cudaLibrary_t* library, const void*, cudaJitOption*,
                                         void**, unsigned, cudaLibraryOption*, void**, unsigned) {
  *library = reinterpret_cast<cudaLibrary_t>(new char);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaLibraryUnload(cudaLibrary_t library) {
  delete reinterpret_cast<char*>(library);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaLibraryGetKernel(cudaKernel_t* kernel, cudaLibrary_t, const char* name) {
  *kernel = reinterpret_cast<cudaKernel_t>(const_cast<Kernel*>(kernels().named(name)));
  return cudaSuccess;
}

VGPU_API cudaError_t cudaGetSymbolAddress(void** address, const void* symbol) {
  *address = kernels().variable(symbol);
  return *address == nullptr ? fail(cudaErrorInvalidSymbol) : cudaSuccess;
}

VGPU_API cudaError_t cudaGetSymbolSize(size_t* size_bytes, const void* symbol) {
  if (kernels().variable(symbol) == nullptr) return fail(cudaErrorInvalidSymbol);
  *size_bytes = kernels().variable_bytes(symbol);
  return cudaSuccess;
}

VGPU_API cudaError_t cudaMemcpyToSymbol(const void* symbol, const void* source, size_t bytes,
                                        size_t offset, cudaMemcpyKind kind) {
  void* variable = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&variable, symbol); error != cudaSuccess) {
    return error;
  }
  if (offset + bytes > kernels().variable_bytes(symbol)) return fail(cudaErrorInvalidValue);
  return cudaMemcpy(static_cast<char*>(variable) + offset, source, bytes, kind);
}

VGPU_API cudaError_t cudaMemcpyFromSymbol(void* target, const void* symbol, size_t bytes,
                                          size_t offset, cudaMemcpyKind kind) {
  void* variable = nullptr;
  if (const cudaError_t error = cudaGetSymbolAddress(&variable, symbol); error != cudaSuccess) {
    return error;
  }
  if (offset + bytes > kernels().variable_bytes(symbol)) return fail(cudaErrorInvalidValue);
  return cudaMemcpy(target, static_cast<char*>(variable) + offset, bytes, kind);
}
