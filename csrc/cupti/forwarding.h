#pragma once

#include "cupti/abi.h"
#include "interposer/runtime_calls.h"

namespace streamguard::cupti {

/// Passes one call that has returned on to `calls`, as the preloaded library would have, or
/// remembers what it says of memory and streams. `status`: cudaError_t.
void forward(Function function, const void* parameters, int status, int device,
             const interposer::RuntimeCalls& calls);

}  // namespace streamguard::cupti
