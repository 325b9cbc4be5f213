#include "dry_run.h"

#include <ATen/ops/zeros.h>

#include <memory>
#include <optional>

#include "arguments.h"
#include "at_issue.h"
#include "coverage.h"
#include "device_results.h"
#include "host_twin.h"
#include "scopes.h"

namespace streamguard::values {
namespace {

using torch::jit::Stack;

at::Tensor zeros_like_device_tensor(const at::Tensor& tensor) {
  if (!tensor.is_cuda()) return tensor;
  std::int64_t extent = 1;  // elements spanned by the strides; expanded dimensions span nothing
  for (std::int64_t dimension = 0; dimension < tensor.dim(); ++dimension) {
    if (tensor.size(dimension) > 0) {
      extent += (tensor.size(dimension) - 1) * tensor.stride(dimension);
    }
  }
  return at::zeros({extent}, tensor.options().device(c10::kCPU))
      .as_strided(tensor.sizes(), tensor.strides());
}

std::optional<Stack> results_over_zeros(const c10::OperatorHandle& op, const OpProfile& profile,
                                        c10::ArrayRef<c10::IValue> arguments) {
  const BackendScope scope;
  Stack stack;
  stack.reserve(arguments.size());
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    stack.push_back(profile.arguments[index].is_out
                        ? resizable_stand_in(arguments[index])
                        : with_tensors_replaced(arguments[index], zeros_like_device_tensor));
  }
  try {
    CpuCall call{op, stack, std::nullopt, profile.generator_argument};
    profile.cpu_kernel(call);
  } catch (const c10::Error&) {
    return std::nullopt;
  }
  return stack;
}

c10::IValue allocate_result(const OpProfile& profile, std::size_t index, const Stack& arguments,
                            const c10::IValue& shape, c10::Device device) {
  const auto argument = profile.returned_argument[index];
  if (!argument) {
    return with_tensors_replaced(
        shape, [device](const at::Tensor& result) { return empty_on_device_like(result, device); });
  }
  if (profile.arguments[*argument].is_out) {
    resize_out_argument(arguments[*argument].toTensor(), shape.toTensor());
  }
  return arguments[*argument];
}

}  // namespace

void compute_after_dry_run(const c10::OperatorHandle& op, const OpProfile& profile,
                           c10::Device device, Stack& stack) {
  const std::size_t argument_count = profile.arguments.size();
  const auto shapes = results_over_zeros(op, profile, torch::jit::last(stack, argument_count));
  if (!shapes) {
    compute_at_issue(op, profile, device, stack);
    return;
  }
  ++Coverage::instance().dry_runs;
  const Stack arguments = torch::jit::pop(stack, argument_count);
  auto twin = std::make_unique<HostTwin>(op, profile, std::nullopt);
  if (is_capturing(device)) twin->make_replayable();
  twin->take_arguments(arguments);
  for (std::size_t index = 0; index < argument_count; ++index) {
    // The CPU kernel resizes a stand-in; the result is then copied into the real one.
    if (profile.arguments[index].is_out) {
      twin->set_argument(index, resizable_stand_in(arguments[index]));
    }
  }
  for (std::size_t index = 0; index < shapes->size(); ++index) {
    c10::IValue result = allocate_result(profile, index, arguments, (*shapes)[index], device);
    const auto argument = profile.returned_argument[index];
    if (!argument || profile.arguments[*argument].is_out) twin->add_destinations(index, result);
    stack.push_back(std::move(result));
  }
  enqueue(std::move(twin), device);
}

}  // namespace streamguard::values
