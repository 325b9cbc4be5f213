#pragma once

#include <string_view>

// What is known about operators by name ("aten::name.overload"). Holds no torch type, so that the
// lists can be read and changed in one place.
namespace streamguard::values {

// Registered at the CUDA key but only handles sizes, storage or bookkeeping; touches no element.
bool is_metadata_op(std::string_view name);

// Not registered at the CUDA key, yet one kernel on the device.
bool is_leaf_without_cuda_kernel(std::string_view name);

// Its result's sizes depend on values, or its kernel reads device memory on the host.
bool needs_values_at_issue(std::string_view name);

// The real kernel asks a library that the virtual GPU does not have (cuFFT, cuSOLVER) for sizes, or
// gives auxiliary outputs a shape that the CPU's backward kernel does not take.
bool allocates_by_dry_run(std::string_view name);

// The kernel is itself a sequence of dispatched ops, each with its own twin.
bool is_made_of_ops(std::string_view name);

// Given sparse tensors it launches kernels of its own; the other operators on sparse tensors are
// made of dense ops on their indices and values. `base_name` has no overload.
bool has_sparse_kernel(std::string_view base_name);

// Operators whose kernel for nested tensors on the device launches something of its own; by name
// without overload.
bool has_nested_kernel(std::string_view base_name);

// Plain tensors in, a nested one out, by a kernel of its own.
bool makes_nested(std::string_view name);

// The result is quantized: no copy of ours takes its bytes as they are.
bool makes_quantized(std::string_view name);

}  // namespace streamguard::values
