#include "hooks/kernel_observers.h"

#include <utility>

#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/op_scope.h"

namespace streamguard::hooks {
namespace {

/// `empty` and the like touch no byte. The observer only marks that the thread got this far: a
/// block whose free completes later than this was not freed at once (see allocator_trace.cc).
class FactoryObserver final : public KernelObserver {
 public:
  using KernelObserver::KernelObserver;

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    this_thread().freed_just_now = 0;
    kernel_.callBoxed(op, keys, stack);
  }
};

class RecordStreamObserver final : public KernelObserver {
 public:
  using KernelObserver::KernelObserver;

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    const auto arguments = torch::jit::last(*stack, schema_.arguments.size());
    const at::Tensor& tensor = arguments[0].toTensor();
    if (tensor.has_storage()) {
      const auto address = reinterpret_cast<uint64_t>(tensor.storage().data());
      const c10::Stream stream = arguments[1].toStream();
      const core::StreamId user = stream_of_torch(stream);
      const Detector::Access detector(Detector::get());
      const core::AllocationId block = detector->engine.allocation_at(address);
      if (block != core::kNoAllocation) detector->engine.record_stream(block, user);
    }
    kernel_.callBoxed(op, keys, stack);
  }
};

}  // namespace

KernelObserver::KernelObserver(OpSchema schema, c10::KernelFunction kernel)
    : schema_(std::move(schema)),
      kernel_(std::move(kernel)),
      label_(Detector::Access(Detector::get())->labels.intern_op(schema_.name)) {}

void KernelObserver::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                torch::jit::Stack* stack) {
  // A kernel inside an observed one works on behalf of it: the outer schema has told everything.
  Detector& detector = Detector::get();
  if (!detector.is_active() || this_thread().scope != nullptr) {
    kernel_.callBoxed(op, keys, stack);
  } else {
    observe(op, keys, stack);
  }
}

void KernelObserver::observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             torch::jit::Stack* stack) {
  OpScope scope(this_thread(), label_);
  scope.add_arguments(schema_, *stack);
  scope.order_before_start();
  kernel_.callBoxed(op, keys, stack);
  scope.add_results(schema_, *stack);
  scope.finish();
}

std::unique_ptr<KernelObserver> make_factory_observer(OpSchema schema, c10::KernelFunction kernel) {
  return std::make_unique<FactoryObserver>(std::move(schema), std::move(kernel));
}

std::unique_ptr<KernelObserver> make_record_stream_observer(OpSchema schema,
                                                            c10::KernelFunction kernel) {
  return std::make_unique<RecordStreamObserver>(std::move(schema), std::move(kernel));
}

}  // namespace streamguard::hooks
