#include <ATen/record_function.h>
#include <torch/library.h>

#include <algorithm>
#include <string>
#include <utility>

#include "hooks/confirmer.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/kernel_observers.h"
#include "hooks/op_scope.h"
#include "hooks/pinned_memory.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

/// A CPU op on pinned memory: the host itself reads and writes, when the op runs.
class HostScope final : public OpScope {
 public:
  using OpScope::OpScope;

  void order_before_start() override {
    Enforcer& enforcer = Enforcer::get();
    if (enforcer.is_active()) enforcer.order_host_access(thread_, thread_.accesses, info());
    Confirmer& confirmer = Confirmer::get();
    if (confirmer.is_active()) confirmer.before_host_access(thread_, thread_.accesses, info());
  }

 protected:
  void place() override { place_on(core::kNoStream); }

  core::OpId issue(detection::DetectorState& detector, core::StreamId,
                   const std::vector<core::Access>& accesses) override {
    return detector.engine.host_access(thread_.id, accesses, {label_, site_});
  }
};

bool concerns_pinned_memory(const at::Tensor& tensor) {
  if (!tensor.defined() || !tensor.device().is_cpu() || !tensor.has_storage()) return false;
  const auto begin = reinterpret_cast<uint64_t>(tensor.storage().data());
  return PinnedMemory::get().may_contain(begin, begin + tensor.storage().nbytes());
}

bool concerns_pinned_memory(const c10::IValue& value) {
  if (value.isTensor()) return concerns_pinned_memory(value.toTensor());
  if (!value.isList()) return false;
  for (const c10::IValue& element : value.toListRef()) {
    if (concerns_pinned_memory(element)) return true;
  }
  return false;
}

void add_pinned(OpScope& scope, const c10::IValue& value, core::AccessKind kind) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (concerns_pinned_memory(tensor) && PinnedMemory::get().note_host_access(tensor)) {
      scope.add_host_tensor(tensor, kind);
    }
  } else if (value.isList()) {
    for (const c10::IValue& element : value.toListRef()) add_pinned(scope, element, kind);
  }
}

class HostObserver final : public KernelObserver {
 public:
  using KernelObserver::KernelObserver;

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    // Value kernels of the virtual GPU run CPU kernels for the device, under this guard.
    if (!touches_pinned_memory(*stack) || !at::isRecordFunctionEnabled()) {
      kernel_.callBoxed(op, keys, stack);
      return;
    }
    HostScope scope(this_thread(), label_);
    add_pinned_arguments(scope, *stack);
    scope.order_before_start();
    kernel_.callBoxed(op, keys, stack);
    scope.finish();
  }

 private:
  bool touches_pinned_memory(const torch::jit::Stack& stack) const {
    if (!PinnedMemory::get().may_contain(0, UINT64_MAX)) return false;
    const auto arguments = torch::jit::last(stack, schema_.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (schema_.arguments[i] != ArgumentUse::kNone && concerns_pinned_memory(arguments[i])) {
        return true;
      }
    }
    return false;
  }

  void add_pinned_arguments(OpScope& scope, const torch::jit::Stack& stack) const {
    const auto arguments = torch::jit::last(stack, schema_.arguments.size());
    for (size_t i = 0; i < arguments.size(); ++i) {
      if (schema_.arguments[i] == ArgumentUse::kNone) continue;
      const bool is_written = schema_.arguments[i] == ArgumentUse::kWrite;
      add_pinned(scope, arguments[i],
                 is_written ? core::AccessKind::kWrite : core::AccessKind::kRead);
    }
  }
};

/// A host function of an extension, which the dispatcher does not see. Called before it runs, so
/// that what is enforced or tried comes before the access.
void declare_host(const std::string& name, at::TensorList reads, at::TensorList writes) {
  Detector& detector = Detector::get();
  ThreadState& thread = this_thread();
  if (!detector.is_active() || thread.scope != nullptr) return;
  const auto is_pinned = [](const at::Tensor& tensor) { return concerns_pinned_memory(tensor); };
  if (std::none_of(reads.begin(), reads.end(), is_pinned) &&
      std::none_of(writes.begin(), writes.end(), is_pinned)) {
    return;
  }
  const core::LabelId label = Detector::Access(detector)->labels.intern_op(name);
  HostScope scope(thread, label);
  for (const at::Tensor& tensor : reads) add_pinned(scope, tensor, core::AccessKind::kRead);
  for (const at::Tensor& tensor : writes) add_pinned(scope, tensor, core::AccessKind::kWrite);
  scope.order_before_start();
  scope.finish();
}

TORCH_LIBRARY_FRAGMENT(streamguard, library) {
  library.def("declare_host(str name, Tensor[] reads, Tensor[] writes) -> ()", &declare_host);
}

}  // namespace

std::unique_ptr<KernelObserver> make_host_observer(OpSchema schema, c10::KernelFunction kernel) {
  return std::make_unique<HostObserver>(std::move(schema), std::move(kernel));
}

}  // namespace streamguard::hooks
