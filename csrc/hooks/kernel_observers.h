#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <memory>

#include "core/ids.h"
#include "hooks/op_schema.h"

namespace streamguard::hooks {

/// One operator's observer: runs the kernel that was registered before, and tells the engine what
/// it touched. Called on every kernel start, so: no Python, no allocation in steady state.
class KernelObserver : public c10::OperatorKernel {
 public:
  KernelObserver(OpSchema schema, c10::KernelFunction kernel);

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack);

 protected:
  /// Called when the detector watches and no observed op is under way on this thread.
  virtual void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                       torch::jit::Stack* stack);

  OpSchema schema_;
  c10::KernelFunction kernel_;
  core::LabelId label_;
};

std::unique_ptr<KernelObserver> make_factory_observer(OpSchema schema, c10::KernelFunction kernel);
std::unique_ptr<KernelObserver> make_record_stream_observer(OpSchema schema,
                                                            c10::KernelFunction kernel);
std::unique_ptr<KernelObserver> make_copy_observer(OpSchema schema, c10::KernelFunction kernel);
std::unique_ptr<KernelObserver> make_list_copy_observer(OpSchema schema,
                                                        c10::KernelFunction kernel);
std::unique_ptr<KernelObserver> make_collective_observer(const c10::OperatorHandle& op,
                                                         OpSchema schema,
                                                         c10::KernelFunction kernel);
std::unique_ptr<KernelObserver> make_host_observer(OpSchema schema, c10::KernelFunction kernel);

}  // namespace streamguard::hooks
