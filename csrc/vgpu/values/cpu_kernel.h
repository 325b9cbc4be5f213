#pragma once

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/stack.h>

#include <cstdint>
#include <optional>

namespace streamguard::values {

// One evaluation of an op on CPU tensors. `stack` holds the arguments and, after the kernel ran,
// the results, as with any boxed kernel.
struct CpuCall {
  const c10::OperatorHandle& op;
  torch::jit::Stack& stack;
  // Random ops: seeds the generator that draws. Depends only on the CUDA generator's state at
  // issue.
  std::optional<std::uint64_t> seed;
  std::optional<std::size_t> generator_argument;
};

// REQUIRES: runs inside a BackendScope.
using CpuKernel = void (*)(CpuCall& call);

// The op's registered CPU kernel, with a freshly seeded generator where it takes one.
void run_registered_cpu_kernel(CpuCall& call);

// The kernel that torch chooses for the arguments, which may be sparse or nested.
void run_kernel_for_arguments(CpuCall& call);

}  // namespace streamguard::values
