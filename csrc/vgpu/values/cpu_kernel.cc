#include "cpu_kernel.h"

#include <ATen/CPUGeneratorImpl.h>

namespace streamguard::values {

void run_registered_cpu_kernel(CpuCall& call) {
  if (call.seed && call.generator_argument) {
    call.stack[*call.generator_argument] = at::make_generator<at::CPUGeneratorImpl>(*call.seed);
  }
  call.op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &call.stack);
}

void run_kernel_for_arguments(CpuCall& call) { call.op.callBoxed(&call.stack); }

}  // namespace streamguard::values
