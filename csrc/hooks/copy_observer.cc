#include "hooks/copy_observer.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/kernel_observers.h"
#include "hooks/op_scope.h"
#include "hooks/pinned_memory.h"

namespace streamguard::hooks {
namespace {

// copy_(Tensor(a!) self, Tensor src, bool non_blocking)
constexpr size_t kDestination = 0;
constexpr size_t kSource = 1;

// Whether torch copies between host and device with one cudaMemcpyAsync. Otherwise it makes
// contiguous temporaries of one type and calls copy_ again for them, which we then see call by
// call.
bool is_single_memcpy(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.dtype() != source.dtype() || destination.sizes() != source.sizes()) return false;
  if (destination.is_contiguous() && source.is_contiguous()) return true;
  return destination.strides() == source.strides() && destination.is_non_overlapping_and_dense() &&
         source.is_non_overlapping_and_dense();
}

/// Copy between two devices: runs on the source's stream, which first waits for the destination's
/// stream; afterwards an event takes the order back. The accesses belong before that event's
/// record.
class PeerCopyScope final : public OpScope {
 public:
  PeerCopyScope(ThreadState& thread, core::LabelId label, c10::DeviceIndex source_device)
      : OpScope(thread, label), source_stream_(current_stream(source_device)) {}

  bool on_record(core::EventId, core::StreamId stream) override {
    if (stream == source_stream_ && !is_placed()) place();
    return false;
  }

  // The copy starts after the source's stream has waited for the destination's: only then is it
  // known what is not ordered.
  void after_wait(core::StreamId stream) override {
    if (stream == source_stream_ && !is_placed()) order_before_start();
  }

  void order_before_start() override {
    if (Enforcer::get().is_active() || Confirmer::get().is_active()) {
      order_on(source_stream_, thread_.accesses);
    }
  }

  void order_reads() {
    if (!Enforcer::get().is_active()) return;
    std::vector<core::Access> reads = thread_.accesses;
    std::erase_if(
        reads, [](const core::Access& access) { return access.kind != core::AccessKind::kRead; });
    order_on(source_stream_, reads);
  }

 protected:
  void place() override { place_on(source_stream_); }

 private:
  core::StreamId source_stream_;
};

// Returns: whether the side on the host is pinned memory.
bool add_sides(OpScope& scope, const at::Tensor& destination, const at::Tensor& source) {
  const bool is_to_host = source.is_cuda();
  const at::Tensor& on_host = is_to_host ? destination : source;
  scope.add_tensor(source, core::AccessKind::kRead);
  scope.add_tensor(destination, core::AccessKind::kWrite);
  if (!PinnedMemory::get().note_device_copy(on_host)) return false;
  scope.add_host_tensor(on_host, is_to_host ? core::AccessKind::kWrite : core::AccessKind::kRead);
  return true;
}

void finish_host_copy(OpScope& scope, const at::Tensor& source, bool is_pinned) {
  if (!is_pinned && source.is_cuda()) {
    // HB-10: a copy to pageable memory returns when it is done, non_blocking or not.
    scope.add_stream_wait(current_stream(source.device().index()));
  }
  // HB-10: a copy from pageable memory has read the host's bytes when it returns, so that side is
  // no access that anything could race with.
  scope.finish();
}

void copy_on_one_device(core::LabelId label, const at::Tensor& destination,
                        const at::Tensor& source, c10::function_ref<void()> run_kernel) {
  OpScope scope(this_thread(), label);
  scope.add_tensor(destination, core::AccessKind::kWrite);
  scope.add_tensor(source, core::AccessKind::kRead);
  scope.order_before_start();
  run_kernel();
  scope.add_result(destination, true);
  scope.finish();
}

void copy_between_devices(core::LabelId label, const at::Tensor& destination,
                          const at::Tensor& source, c10::function_ref<void()> run_kernel) {
  PeerCopyScope scope(this_thread(), label, source.device().index());
  scope.add_tensor(destination, core::AccessKind::kWrite);
  scope.add_tensor(source, core::AccessKind::kRead);
  // Through contiguous temporaries: the source is read before its stream waits for the other.
  if (!is_single_memcpy(destination, source)) scope.order_reads();
  run_kernel();
  scope.finish();
}

void copy_to_or_from_host(core::LabelId label, const at::Tensor& destination,
                          const at::Tensor& source, c10::function_ref<void()> run_kernel) {
  ThreadState& thread = this_thread();
  if (!is_single_memcpy(destination, source)) {
    const uint64_t observed_before = thread.observed_ops;
    run_kernel();
    if (thread.observed_ops != observed_before) return;
    // torch did it in one call after all.
    OpScope late_scope(thread, label);
    const bool is_pinned = add_sides(late_scope, destination, source);
    finish_host_copy(late_scope, source, is_pinned);
    return;
  }
  OpScope scope(thread, label);
  const bool is_pinned = add_sides(scope, destination, source);
  scope.order_before_start();
  run_kernel();
  finish_host_copy(scope, source, is_pinned);
}

class CopyObserver final : public KernelObserver {
 public:
  using KernelObserver::KernelObserver;

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    const auto arguments = torch::jit::last(*stack, schema_.arguments.size());
    // Copies: the kernel drops the stack's references before the accesses are placed.
    const at::Tensor destination = arguments[kDestination].toTensor();
    const at::Tensor source = arguments[kSource].toTensor();
    observe_copy(label_, destination, source, [&] { kernel_.callBoxed(op, keys, stack); });
  }
};

/// Lists on one device are one kernel. Between devices, or with the host, the same operator calls
/// copy_ for each pair, and those calls know what becomes of the host's side.
class ListCopyObserver final : public KernelObserver {
 public:
  using KernelObserver::KernelObserver;

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    const auto arguments = torch::jit::last(*stack, schema_.arguments.size());
    if (is_on_one_device(arguments[kDestination].toListRef(), arguments[kSource].toListRef())) {
      KernelObserver::observe(op, keys, stack);
    } else {
      kernel_.callBoxed(op, keys, stack);
    }
  }

 private:
  static bool is_on_one_device(c10::ArrayRef<c10::IValue> destinations,
                               c10::ArrayRef<c10::IValue> sources) {
    if (destinations.empty()) return true;
    const c10::Device device = destinations[0].toTensor().device();
    const auto is_there = [&](const c10::IValue& value) {
      return value.toTensor().device() == device;
    };
    return std::all_of(destinations.begin(), destinations.end(), is_there) &&
           std::all_of(sources.begin(), sources.end(), is_there);
  }
};

}  // namespace

void observe_copy(core::LabelId label, const at::Tensor& destination, const at::Tensor& source,
                  c10::function_ref<void()> run_kernel) {
  if (!destination.is_cuda() || !source.is_cuda()) {
    copy_to_or_from_host(label, destination, source, run_kernel);
  } else if (destination.device() == source.device()) {
    copy_on_one_device(label, destination, source, run_kernel);
  } else {
    copy_between_devices(label, destination, source, run_kernel);
  }
}

std::unique_ptr<KernelObserver> make_list_copy_observer(OpSchema schema,
                                                        c10::KernelFunction kernel) {
  return std::make_unique<ListCopyObserver>(std::move(schema), std::move(kernel));
}

std::unique_ptr<KernelObserver> make_copy_observer(OpSchema schema, c10::KernelFunction kernel) {
  return std::make_unique<CopyObserver>(std::move(schema), std::move(kernel));
}

}  // namespace streamguard::hooks
