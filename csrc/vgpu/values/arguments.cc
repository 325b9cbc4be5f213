#include "arguments.h"

#include <c10/cuda/CUDAFunctions.h>

#include "compound_tensors.h"

namespace streamguard::values {
namespace {

bool is_plain(const at::Tensor& tensor) {
  return (tensor.layout() == c10::kStrided || is_compound(tensor)) && !tensor.is_quantized() &&
         !tensor.key_set().has(c10::DispatchKey::Python) && !tensor.is_meta();
}

}  // namespace

Placement placement_of(c10::ArrayRef<c10::IValue> arguments) {
  Placement placement;
  std::optional<c10::Device> device_argument;
  for (const c10::IValue& argument : arguments) {
    any_tensor(argument, [&](const at::Tensor& tensor) {
      placement.is_plain &= is_plain(tensor);
      placement.has_compound |= is_compound(tensor);
      if (!tensor.is_cuda()) return false;
      if (!placement.device) {
        placement.device = tensor.device();
      } else if (*placement.device != tensor.device()) {
        placement.spans_devices = true;
      }
      return false;
    });
    if (argument.isDevice() && argument.toDevice().is_cuda()) device_argument = argument.toDevice();
  }
  if (!placement.device && device_argument) {
    placement.device = device_argument->has_index()
                           ? *device_argument
                           : c10::Device(c10::kCUDA, c10::cuda::current_device());
  }
  return placement;
}

bool has_mask(c10::ArrayRef<c10::IValue> arguments) {
  for (const c10::IValue& argument : arguments) {
    if (!argument.isOptionalTensorList()) continue;
    if (any_tensor(argument, [](const at::Tensor& index) {
          return index.scalar_type() == at::kBool || index.scalar_type() == at::kByte;
        })) {
      return true;
    }
  }
  return false;
}

}  // namespace streamguard::values
