#include "kernel_registry.h"

#include "api_log.h"
#include "kernel_twins.h"
#include "runtime.h"

namespace streamguard::vgpu {

void KernelRegistry::add(const void* host_function, const char* name) {
  const std::lock_guard<std::mutex> guard(mutex_);
  by_function_[host_function] = std::make_unique<Kernel>();
  by_function_[host_function]->name = name;
  by_function_[host_function]->host_function = host_function;
}

const Kernel* KernelRegistry::find(const void* host_function) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = by_function_.find(host_function);
  return found == by_function_.end() ? nullptr : found->second.get();
}

const Kernel* KernelRegistry::named(const std::string& name) {
  const std::lock_guard<std::mutex> guard(mutex_);
  std::unique_ptr<Kernel>& kernel = by_name_[name];
  if (kernel == nullptr) {
    kernel = std::make_unique<Kernel>();
    kernel->name = name;
  }
  return kernel.get();
}

void KernelRegistry::add_variable(const void* host_variable, size_t size_bytes) {
  const std::lock_guard<std::mutex> guard(mutex_);
  variables_[host_variable] = {std::unique_ptr<char[]>(new char[size_bytes + 1]()), size_bytes};
}

void* KernelRegistry::variable(const void* host_variable) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = variables_.find(host_variable);
  return found == variables_.end() ? nullptr : found->second.memory.get();
}

size_t KernelRegistry::variable_bytes(const void* host_variable) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  const auto found = variables_.find(host_variable);
  return found == variables_.end() ? 0 : found->second.size_bytes;
}

KernelRegistry& kernels() {
  static auto* const kKernels = new KernelRegistry;
  return *kKernels;
}

std::atomic<unsigned long long>& launch_count() {
  static std::atomic<unsigned long long> count{0};
  return count;
}

cudaError_t launch(const Kernel& kernel, const LaunchShape& shape, cudaStream_t handle) {
  return with_stream(handle, [&](Lock& lock, Stream& stream) {
    ++launch_count();
    runtime().streams.note_use(stream);
    const char* const name = kernel.name.c_str();
    log_line("launch stream=%d kernel=%s", stream.index, name);
    return enqueue(lock, stream, cudaGraphNodeTypeKernel, work_of_launch(kernel, shape), {},
                   nullptr, name);
  });
}

}  // namespace streamguard::vgpu
