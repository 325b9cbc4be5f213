#pragma once

#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

#include <optional>
#include <utility>

namespace streamguard::values {

// The boxed value with every defined tensor in it replaced by `function(tensor)` and a CUDA device
// by the CPU.
template <class Function>
c10::IValue with_tensors_replaced(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() ? c10::IValue(function(tensor)) : value;
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> replaced;
    replaced.reserve(value.toListRef().size());
    for (const c10::IValue& element : value.toListRef()) {
      const at::Tensor& tensor = element.toTensor();
      replaced.push_back(tensor.defined() ? function(tensor) : tensor);
    }
    return replaced;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> replaced;
    for (const auto& element : value.toOptionalTensorVector()) {
      const bool is_defined = element.has_value() && element->defined();
      replaced.push_back(is_defined ? std::optional<at::Tensor>(function(*element)) : element);
    }
    return replaced;
  }
  if (value.isDevice() && value.toDevice().is_cuda()) return c10::Device(c10::kCPU);
  return value;
}

// Calls `function(tensor)` for every defined tensor in the boxed value; stops and returns true as
// soon as one call does.
template <class Function>
bool any_tensor(const c10::IValue& value, Function&& function) {
  if (value.isTensor()) return value.toTensor().defined() && function(value.toTensor());
  if (!value.isTensorList() && !value.isOptionalTensorList()) return false;
  for (const c10::IValue& element : value.toListRef()) {
    if (element.isTensor() && element.toTensor().defined() && function(element.toTensor())) {
      return true;
    }
  }
  return false;
}

// Where a call's arguments live.
struct Placement {
  std::optional<c10::Device> device;  // of the first CUDA tensor, else the CUDA device argument
  bool spans_devices = false;         // CUDA tensors of different devices
  bool is_plain = true;               // no tensor is quantized, mkldnn, meta or Python's
  bool has_compound = false;          // a tensor is sparse or nested
};

Placement placement_of(c10::ArrayRef<c10::IValue> arguments);

// Whether an index list holds a mask (bool or uint8 tensor).
bool has_mask(c10::ArrayRef<c10::IValue> arguments);

}  // namespace streamguard::values
