#pragma once

#include <ATen/core/stack.h>
#include <c10/core/Device.h>

#include "op_profile.h"

namespace streamguard::values {

// An op whose previous kernel cannot run: learns its results' shapes by running the CPU kernel over
// zeros, allocates them, and enqueues the twin. No host wait, as on a real device. Where the CPU
// kernel refuses zeros the op is computed at issue instead.
void compute_after_dry_run(const c10::OperatorHandle& op, const OpProfile& profile,
                           c10::Device device, torch::jit::Stack& stack);

}  // namespace streamguard::values
