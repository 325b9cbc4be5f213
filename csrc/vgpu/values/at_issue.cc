#include "at_issue.h"

#include <c10/cuda/CUDAStream.h>

#include <utility>

#include "arguments.h"
#include "compound_tensors.h"
#include "coverage.h"
#include "cpu_alias.h"
#include "device_results.h"
#include "error_slot.h"
#include "scopes.h"
#include "stream_fill.h"

namespace streamguard::values {
namespace {

using torch::jit::Stack;

Stack arguments_on_cpu(const OpProfile& profile, c10::ArrayRef<c10::IValue> arguments) {
  Stack on_cpu;
  on_cpu.reserve(arguments.size());
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const ArgumentProfile& argument = profile.arguments[index];
    if (argument.is_out && !any_tensor(arguments[index], is_compound)) {
      on_cpu.push_back(resizable_stand_in(arguments[index]));
      continue;
    }
    on_cpu.push_back(with_tensors_replaced(arguments[index], [&argument](const at::Tensor& tensor) {
      return compound_on_cpu(tensor, argument.is_written);
    }));
  }
  return on_cpu;
}

}  // namespace

void compute_at_issue(const c10::OperatorHandle& op, const OpProfile& profile, c10::Device device,
                      Stack& stack) {
  ++Coverage::instance().at_issue;
  c10::cuda::stream_synchronize(c10::cuda::getCurrentCUDAStream(device.index()));
  ErrorSlot::instance().throw_if_set();

  const std::size_t argument_count = profile.arguments.size();
  const Stack arguments = torch::jit::pop(stack, argument_count);
  Stack results = arguments_on_cpu(profile, arguments);
  {
    const BackendScope scope;
    CpuCall call{op, results, std::nullopt, profile.generator_argument};
    profile.cpu_kernel(call);
  }
  StreamFill fill;
  for (std::size_t index = 0; index < results.size(); ++index) {
    const auto argument = profile.returned_argument[index];
    if (argument && any_tensor(arguments[*argument], is_compound)) {
      update_written(arguments[*argument].toTensor(), results[index].toTensor(), fill);
    } else if (argument && profile.arguments[*argument].is_out) {
      const at::Tensor& out = arguments[*argument].toTensor();
      resize_out_argument(out, results[index].toTensor());
      fill.add(out, results[index].toTensor());
    }
    if (argument) {
      stack.push_back(arguments[*argument]);
      continue;
    }
    stack.push_back(
        with_tensors_replaced(results[index], [&fill, device](const at::Tensor& result) {
          return compound_on_device(result, device, fill);
        }));
  }
  std::move(fill).enqueue(device);
}

}  // namespace streamguard::values
