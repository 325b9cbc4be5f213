#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <optional>

#include "hooks/op_schema.h"

namespace streamguard::hooks {

/// The observer of `op` for callers that pass typed arguments: these reach the kernel without a
/// stack of boxed values between. It tells what `KernelObserver` and the copy's observer tell.
///
/// Returns: nothing when the operator's C++ signature is none of the frequent ones, or when kernel
/// or class are others; the boxed observer serves those.
std::optional<torch::CppFunction> make_unboxed_observer(const c10::OperatorHandle& op,
                                                        const OpSchema& schema,
                                                        const c10::KernelFunction& kernel);

}  // namespace streamguard::hooks
