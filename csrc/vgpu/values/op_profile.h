#pragma once

#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <optional>
#include <string>
#include <vector>

#include "cpu_kernel.h"

namespace streamguard::values {

// How the values of an op come about.
enum class Treatment {
  kTwin,         // the previous kernel allocates and launches; the CPU kernel follows on the stream
  kAtIssue,      // result sizes depend on values: wait for the stream, compute, then allocate
  kDryRun,       // the previous kernel cannot run: shapes from a run over zeros, then as kTwin
  kCopy,         // copy_: a twin within a device, the runtime's own memcpy between devices
  kErrorCheck,   // reads a value back: failures of earlier twins surface here
  kMadeOfOps,    // the previous kernel's own ops have twins
  kNotComputed,  // no CPU kernel exists
};

const char* to_string(Treatment treatment);

struct ArgumentProfile {
  bool is_written = false;
  bool is_out = false;  // an out= argument, which the kernel may resize
};

// What the override of one operator needs to know, fixed when it is installed.
struct OpProfile {
  std::string name;  // "aten::name.overload"
  Treatment treatment = Treatment::kTwin;
  std::vector<ArgumentProfile> arguments;
  // For each return: the written argument that it is, or nothing for a new tensor.
  std::vector<std::optional<std::size_t>> returned_argument;
  bool writes_arguments = false;
  bool has_out_arguments = false;
  bool is_random = false;
  std::optional<std::size_t> generator_argument;
  bool may_take_masks = false;  // indexing: a bool index makes the result's size depend on values
  CpuKernel cpu_kernel = nullptr;
  c10::KernelFunction previous;  // the kernel that was registered for CUDA before ours
};

// For an operator given sparse tensors (`key` is SparseCUDA or SparseCsrCUDA): values of its own
// kernel are not computed. Nothing where it has none. The name ends in " (sparse)".
std::optional<OpProfile> make_sparse_profile(const c10::OperatorHandle& op, const std::string& name,
                                             c10::DispatchKey key);

// Nothing for an operator that has no kernel on the device or touches no element.
std::optional<OpProfile> make_profile(const c10::OperatorHandle& op, const std::string& name);

}  // namespace streamguard::values
