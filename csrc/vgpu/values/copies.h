#pragma once

#include <ATen/core/Tensor.h>

namespace streamguard::values {

// How `copy_` reaches its destination.
enum class CopyRoute {
  kWithinDevice,  // one kernel: a twin
  kRuntime,       // the runtime's memcpy, or ops around one, which compute themselves
  kStaged,        // between devices with a conversion: a kernel on the source's stream in reality
};

CopyRoute route_of(const at::Tensor& destination, const at::Tensor& source);

// A peer copy that is not a plain memcpy: contiguous temporary on the source device, memcpy between
// devices, local copy into the destination.
//
// The real kernel launches on the *source* device's stream and orders the destination's stream by
// an event inside, so a twin enqueued afterwards would come too late; each of these three steps
// orders itself.
void copy_staged(const at::Tensor& destination, const at::Tensor& source);

}  // namespace streamguard::values
