#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/stack.h>

#include <memory>

#include "op_profile.h"

namespace streamguard::values {

// The boxed kernel registered in the place of an op's CUDA kernel.
//
// It sits exactly where a device kernel starts: autograd, autocast, functionalization, functorch,
// tensor subclasses and Python modes all lie above it. Observers (the detector) are registered
// later and lie above it too.
//
// Thread safety: any number of threads; it holds no state of a call.
// Cost: 2 to 5 microseconds an op over the bare previous kernel, the CPU kernel not counted.
class OverrideKernel final : public c10::OperatorKernel {
 public:
  explicit OverrideKernel(std::shared_ptr<const OpProfile> profile)
      : profile_(std::move(profile)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) const;

 private:
  using Stack = torch::jit::Stack;

  void call_previous(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) const;
  void call_previous_not_computed(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                  Stack& stack) const;
  void run_with_twin(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack,
                     c10::Device device) const;
  void copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) const;
  void compute(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack& stack) const;

  std::shared_ptr<const OpProfile> profile_;
};

// Whether installed overrides compute; off, they only pass on.
void set_active(bool active);

}  // namespace streamguard::values
