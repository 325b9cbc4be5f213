#pragma once

#include <ATen/core/Tensor.h>
#include <ATen/core/ivalue.h>
#include <c10/core/Device.h>

namespace streamguard::values {

// A new tensor on `device` with the layout of a CPU result; its bytes are not set.
at::Tensor empty_on_device_like(const at::Tensor& result, c10::Device device);

// Gives an out= tensor the shape of a CPU result, as the real kernel would.
void resize_out_argument(const at::Tensor& out, const at::Tensor& result);

// An empty CPU tensor that a CPU kernel may resize, in the place of an out= argument.
c10::IValue resizable_stand_in(const c10::IValue& out_argument);

}  // namespace streamguard::values
