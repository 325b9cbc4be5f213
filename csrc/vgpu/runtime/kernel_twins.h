// Host twins: functions that compute on the host what a kernel would, given by its owner.
#ifndef STREAMGUARD_VGPU_RUNTIME_KERNEL_TWINS_H_
#define STREAMGUARD_VGPU_RUNTIME_KERNEL_TWINS_H_

#include <cuda_runtime_api.h>

#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "internal_api.h"
#include "kernel_registry.h"
#include "work.h"

namespace streamguard::vgpu {

struct KernelTwin {
  streamguard_vgpu_kernel_twin function = nullptr;
  void* context = nullptr;
  std::vector<size_t> argument_bytes;
};

// How a kernel was launched. `arguments` is valid during the call only.
struct LaunchShape {
  dim3 grid;
  dim3 block;
  void** arguments = nullptr;
};

// Thread safety: has its own lock.
class KernelTwins {
 public:
  // Replaces the twin of a symbol; one without a function removes it.
  void set(const std::string& symbol, KernelTwin twin);
  // By the name the compiler registered, or else by its C++ name without parameters.
  std::shared_ptr<const KernelTwin> find(const std::string& kernel) const;

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, std::shared_ptr<const KernelTwin>> by_symbol_;
};

KernelTwins& kernel_twins();

// The work of a launch: its twin over a copy of the arguments, or nothing. Says once by name that
// a kernel has no twin where one is missed.
Work work_of_launch(const Kernel& kernel, const LaunchShape& shape);

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_KERNEL_TWINS_H_
