// Kernels and device variables of loaded code: known by name, never run.
#ifndef STREAMGUARD_VGPU_RUNTIME_KERNEL_REGISTRY_H_
#define STREAMGUARD_VGPU_RUNTIME_KERNEL_REGISTRY_H_

#include <cuda_runtime_api.h>

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

namespace streamguard::vgpu {

// cudaKernel_t, CUfunction and CUkernel alike.
struct Kernel {
  std::string name;                           // mangled, as the compiler registered it
  const void* host_function = nullptr;        // null for one known by name only
  mutable std::atomic<bool> was_told{false};  // that it has no values
};

// Thread safety: has its own lock, because code registers itself before main().
// Invariant: kernels live for ever.
class KernelRegistry {
 public:
  void add(const void* host_function, const char* name);
  const Kernel* find(const void* host_function) const;
  // A kernel known by name only (modules, libraries).
  const Kernel* named(const std::string& name);

  void add_variable(const void* host_variable, size_t size_bytes);
  // Address of a device variable's memory, null if unknown.
  void* variable(const void* host_variable) const;
  size_t variable_bytes(const void* host_variable) const;

 private:
  struct Variable {
    std::unique_ptr<char[]> memory;
    size_t size_bytes;
  };
  mutable std::mutex mutex_;
  std::unordered_map<const void*, std::unique_ptr<Kernel>> by_function_;
  std::map<std::string, std::unique_ptr<Kernel>> by_name_;
  std::unordered_map<const void*, Variable> variables_;
};

KernelRegistry& kernels();

// Launches issued by this process, captured ones included.
std::atomic<unsigned long long>& launch_count();

struct LaunchShape;

// Issues a launch; `kernel` lives for ever.
cudaError_t launch(const Kernel& kernel, const LaunchShape& shape, cudaStream_t stream);

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_KERNEL_REGISTRY_H_
