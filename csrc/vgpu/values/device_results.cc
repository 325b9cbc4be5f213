#include "device_results.h"

#include <ATen/native/Resize.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>

#include "arguments.h"
#include "scopes.h"

namespace streamguard::values {

at::Tensor empty_on_device_like(const at::Tensor& result, c10::Device device) {
  const BackendScope scope;
  return at::empty_strided(result.sizes(), result.strides(), result.options().device(device));
}

void resize_out_argument(const at::Tensor& out, const at::Tensor& result) {
  const BackendScope scope;
  at::native::resize_output(out, result.sizes());
}

c10::IValue resizable_stand_in(const c10::IValue& out_argument) {
  const BackendScope scope;
  return with_tensors_replaced(out_argument, [](const at::Tensor& out) {
    return at::empty({0}, out.options().device(c10::kCPU));
  });
}

}  // namespace streamguard::values
