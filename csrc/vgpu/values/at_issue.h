#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include "op_profile.h"

namespace streamguard::values {

// Evaluates the op now: waits for the current stream of `device`, as the real kernel does to learn
// its result's size, runs the CPU kernel over the arguments' bytes, and allocates the results on
// the device. Replaces the arguments on `stack` by the results; the previous kernel is not called.
void compute_at_issue(const c10::OperatorHandle& op, const OpProfile& profile, c10::Device device,
                      torch::jit::Stack& stack);

}  // namespace streamguard::values
