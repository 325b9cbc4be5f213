#include "substitutes.h"

namespace streamguard::values {
namespace {

// (self, dim, half_to_float)
void widen_input_first(CpuCall& call) {
  if (!call.stack[2].toBool()) return;
  call.stack[0] = call.stack[0].toTensor().to(at::kFloat);
  call.stack[2] = false;
}

}  // namespace

void softmax_to_float(CpuCall& call) {
  widen_input_first(call);
  run_registered_cpu_kernel(call);
}

// (grad_output, output, dim, input_dtype): the narrowing is left to the copy into the device's
// result.
void softmax_backward(CpuCall& call) {
  call.stack[3] = call.stack[0].toTensor().scalar_type();
  run_registered_cpu_kernel(call);
}

}  // namespace streamguard::values
