// A context is named by its device's ordinal; there is one, primary, for each device.
#ifndef STREAMGUARD_VGPU_RUNTIME_CONTEXT_HANDLE_H_
#define STREAMGUARD_VGPU_RUNTIME_CONTEXT_HANDLE_H_

#include <cstdint>

namespace streamguard::vgpu {

inline constexpr uintptr_t kContextBase = 0x1000;

inline void* context_handle(int device) {
  return reinterpret_cast<void*>(kContextBase + static_cast<uintptr_t>(device));
}

inline int device_of_context(const void* context) {
  return static_cast<int>(reinterpret_cast<uintptr_t>(context) - kContextBase);
}

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_CONTEXT_HANDLE_H_
