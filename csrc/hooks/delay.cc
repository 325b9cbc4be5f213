#include "hooks/delay.h"

#include <cuda_runtime_api.h>
#include <dlfcn.h>

#include <memory>
#include <thread>

namespace streamguard::hooks {
namespace {

using StandStill = cudaError_t (*)(cudaStream_t, unsigned long long);
using Hold = cudaError_t (*)(cudaStream_t);
using Release = cudaError_t (*)(cudaStream_t, const cudaStream_t*);

// Written once, before the first delay.
StandStill stand_still = nullptr;

template <typename Function>
Function find(void* library, const char* name) {
  return reinterpret_cast<Function>(dlsym(library, name));
}

// Of the virtual GPU's runtime, where that is loaded.
Hold hold() {
  static const Hold function = find<Hold>(RTLD_DEFAULT, "streamguard_vgpu_hold_stream");
  return function;
}

cudaStream_t stream_of_handle(uint64_t handle) { return reinterpret_cast<cudaStream_t>(handle); }

void sleep_on_host(void* time) {
  const std::unique_ptr<std::chrono::microseconds> taken(
      static_cast<std::chrono::microseconds*>(time));
  std::this_thread::sleep_for(*taken);
}

}  // namespace

void load_probes(const std::string& probes) {
  if (probes.empty() || stand_still != nullptr) return;
  void* const library = dlopen(probes.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (library != nullptr) stand_still = find<StandStill>(library, "streamguard_stand_still");
}

bool begin_delay(const Delayed& stream) {
  const cudaStream_t handle = stream_of_handle(stream.handle);
  if (hold() != nullptr) return hold()(handle) == cudaSuccess;
  if (stand_still != nullptr) {
    const auto time = std::chrono::nanoseconds(stream.time).count();
    return stand_still(handle, static_cast<unsigned long long>(time)) == cudaSuccess;
  }
  auto time = std::make_unique<std::chrono::microseconds>(stream.time);
  if (cudaLaunchHostFunc(handle, &sleep_on_host, time.get()) != cudaSuccess) return false;
  (void)time.release();  // the function's
  return true;
}

void end_delay(const Delayed& stream, const uint64_t* first) {
  static const Release release = find<Release>(RTLD_DEFAULT, "streamguard_vgpu_release_stream");
  if (release == nullptr) return;
  const cudaStream_t before = first == nullptr ? nullptr : stream_of_handle(*first);
  release(stream_of_handle(stream.handle), first == nullptr ? nullptr : &before);
}

}  // namespace streamguard::hooks
