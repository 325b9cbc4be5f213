#pragma once

#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <cstdint>

#include "op_profile.h"

namespace streamguard::values {

// The seed of a random op's twin, from the CUDA generator's (seed, offset) before the op runs: the
// numbers depend on the order in which the program issued its random ops and on nothing else, so
// every schedule draws the same ones. They are not the numbers a real device draws.
//
// While the stream is captured the generator's state is not readable; a count of captured random
// ops takes its place, and the twin mixes in how often it ran, so that each replay draws anew.
std::uint64_t seed_at_issue(const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments,
                            c10::Device device, bool is_capturing);

// The seed of the `run`-th execution of a twin (0 the first).
std::uint64_t seed_of_run(std::uint64_t seed, std::uint64_t run);

}  // namespace streamguard::values
