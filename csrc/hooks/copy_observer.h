#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>

#include "core/ids.h"

namespace streamguard::hooks {

/// Runs one aten::copy_ by `run_kernel` and tells the engine what it touched; the devices of both
/// sides decide what that is.
///
/// REQUIRES: the detector watches, no observed op is under way on this thread, and the caller keeps
/// both tensors, also where the kernel drops the references that it was given.
void observe_copy(core::LabelId label, const at::Tensor& destination, const at::Tensor& source,
                  c10::function_ref<void()> run_kernel);

}  // namespace streamguard::hooks
