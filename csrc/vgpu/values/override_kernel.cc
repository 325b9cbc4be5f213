#include "override_kernel.h"

#include <atomic>
#include <optional>

#include "arguments.h"
#include "at_issue.h"
#include "copies.h"
#include "coverage.h"
#include "cpu_alias.h"
#include "dry_run.h"
#include "error_slot.h"
#include "host_twin.h"
#include "random_seed.h"
#include "scopes.h"

namespace streamguard::values {
namespace {

std::atomic<bool> active{true};

bool writes_cpu_tensor(const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments) {
  if (!profile.writes_arguments) return false;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    if (profile.arguments[index].is_written &&
        any_tensor(arguments[index], [](const at::Tensor& tensor) { return tensor.is_cpu(); })) {
      return true;
    }
  }
  return false;
}

// out= arguments, to be aliased after the previous kernel has given them their final shape.
std::vector<std::pair<std::size_t, c10::IValue>> out_arguments(
    const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments) {
  std::vector<std::pair<std::size_t, c10::IValue>> outs;
  if (!profile.has_out_arguments) return outs;
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    if (profile.arguments[index].is_out) outs.emplace_back(index, arguments[index]);
  }
  return outs;
}

}  // namespace

void set_active(bool is_active) {
  active.store(is_active, std::memory_order_relaxed);
  tell_runtime(is_active);
}

void OverrideKernel::call_previous(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                   Stack& stack) const {
  profile_->previous.callBoxed(op, keys, &stack);
}

void OverrideKernel::call_previous_not_computed(const c10::OperatorHandle& op,
                                                c10::DispatchKeySet keys, Stack& stack) const {
  Coverage::instance().note_not_computed(profile_->name);
  call_previous(op, keys, stack);
}

void OverrideKernel::run_with_twin(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                   Stack& stack, c10::Device device) const {
  const auto arguments = torch::jit::last(stack, profile_->arguments.size());
  const bool capturing = is_capturing(device);
  std::optional<std::uint64_t> seed;
  if (profile_->is_random) seed = seed_at_issue(*profile_, arguments, device, capturing);
  auto twin = std::make_unique<HostTwin>(op, *profile_, seed);
  if (capturing) twin->make_replayable();
  twin->take_arguments(arguments);
  const auto outs = out_arguments(*profile_, arguments);
  {
    const EnclosedKernelScope scope;
    call_previous(op, keys, stack);
  }
  for (const auto& [index, out] : outs) {
    twin->set_argument(index, with_tensors_replaced(out, alias_for_writing));
  }
  const auto results = torch::jit::last(stack, profile_->returned_argument.size());
  for (std::size_t index = 0; index < results.size(); ++index) {
    const auto argument = profile_->returned_argument[index];
    if (!argument) {
      twin->add_destinations(index, results[index]);
    } else if (results[index].isTensor() && !profile_->arguments[*argument].is_out &&
               twin->was_resized(*argument, results[index].toTensor())) {
      twin->redirect_resized_argument(*argument, index, results[index].toTensor());
    }
  }
  ++Coverage::instance().twins;
  enqueue(std::move(twin), device);
}

void OverrideKernel::copy(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                          Stack& stack) const {
  const auto arguments = torch::jit::last(stack, profile_->arguments.size());
  const at::Tensor destination = arguments[0].toTensor();
  const at::Tensor source = arguments[1].toTensor();
  switch (route_of(destination, source)) {
    case CopyRoute::kWithinDevice:
      run_with_twin(op, keys, stack, destination.device());
      return;
    case CopyRoute::kRuntime:
      call_previous(op, keys, stack);
      ErrorSlot::instance().throw_if_set();
      return;
    case CopyRoute::kStaged:
      copy_staged(destination, source);
      torch::jit::drop(stack, profile_->arguments.size());
      stack.emplace_back(destination);
      return;
  }
}

void OverrideKernel::compute(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                             Stack& stack) const {
  const auto arguments = torch::jit::last(stack, profile_->arguments.size());
  const Placement placement = placement_of(arguments);
  if (!placement.is_plain || (placement.has_compound && !profile_->takes_compound)) {
    call_previous_not_computed(op, keys, stack);
    return;
  }
  if (profile_->treatment == Treatment::kCopy) {
    copy(op, keys, stack);
    return;
  }
  // Lists over several devices, or with CPU members, make the kernel fall back to one op for each
  // member; those have twins of their own.
  if (!placement.device || placement.spans_devices || writes_cpu_tensor(*profile_, arguments)) {
    call_previous(op, keys, stack);
    return;
  }
  switch (profile_->treatment) {
    case Treatment::kTwin:
      if (profile_->may_take_masks && has_mask(arguments)) {
        compute_at_issue(op, *profile_, *placement.device, stack);
      } else {
        run_with_twin(op, keys, stack, *placement.device);
      }
      return;
    case Treatment::kAtIssue:
      compute_at_issue(op, *profile_, *placement.device, stack);
      return;
    case Treatment::kDryRun:
      compute_after_dry_run(op, *profile_, *placement.device, stack);
      return;
    case Treatment::kNotComputed:
      call_previous_not_computed(op, keys, stack);
      return;
    case Treatment::kErrorCheck:
      call_previous(op, keys, stack);
      ErrorSlot::instance().throw_if_set();
      return;
    case Treatment::kCopy:  // handled above: it may span devices
    case Treatment::kMadeOfOps:
      call_previous(op, keys, stack);
      return;
  }
}

void OverrideKernel::operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                                Stack* stack) const {
  // A data-dependent op inside another op's kernel reads that op's own inputs, and the kernel needs
  // its result to go on.
  const bool is_part_of_op =
      EnclosedKernelScope::is_active() && profile_->treatment != Treatment::kAtIssue;
  if (is_part_of_op || !active.load(std::memory_order_relaxed)) {
    call_previous(op, keys, *stack);
    return;
  }
  ErrorSlot::instance().throw_if_set();
  compute(op, keys, *stack);
}

}  // namespace streamguard::values
