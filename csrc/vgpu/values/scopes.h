#pragma once

#include <ATen/record_function.h>
#include <c10/core/GradMode.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace streamguard::values {

// Everything above the backend is off, whatever thread runs this: autograd, autocast, functorch,
// Python modes, and record-function observers (a twin is no op of the program).
//
// BackendSelect stays included: without it every factory function fails to dispatch.
class BackendScope {
 public:
  BackendScope();

 private:
  c10::impl::ForceDispatchKeyGuard dispatch_keys_;
  c10::AutoGradMode grad_mode_{false};
  at::DisableRecordFunctionGuard record_functions_;
};

// Marks that the calling thread is inside the previous kernel of an op which has its own twin.
//
// Ops dispatched in there are parts of that op: their values come with the op's. Device to device
// copies and fills issued in there have no effect, because the twin must find its inputs as they
// were; an in-place op's own bytes are among them.
class EnclosedKernelScope {
 public:
  EnclosedKernelScope();
  ~EnclosedKernelScope();
  EnclosedKernelScope(const EnclosedKernelScope&) = delete;
  EnclosedKernelScope& operator=(const EnclosedKernelScope&) = delete;

  static bool is_active();

 private:
  int* const suppressed_copies_;
};

// Looks up the runtime's copy suppression counter.
// False when the process does not run on the virtual GPU.
bool resolve_copy_suppression();

// Tells the runtime whether ops have values: it then says which kernels have none.
void tell_runtime(bool are_computed);

}  // namespace streamguard::values
