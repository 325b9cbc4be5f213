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
  bool takes_compound = false;  // sparse or nested tensors, which the op as a whole computes
  bool may_take_masks = false;  // indexing: a bool index makes the result's size depend on values
  CpuKernel cpu_kernel = nullptr;
  c10::KernelFunction previous;  // the kernel that was registered for CUDA before ours
};

// Tensors made of several: the keys of their kernels, and what an operator's name ends in.
struct CompoundKeys {
  c10::DispatchKey device;
  c10::DispatchKey cpu;
  const char* suffix;
};

// For an operator given sparse or nested tensors, whose own kernel for the device would launch what
// has no values. Nothing where it has none, or one that is made of other ops.
std::optional<OpProfile> make_compound_profile(const c10::OperatorHandle& op,
                                               const std::string& name, const CompoundKeys& keys);

// Nothing for an operator that has no kernel on the device or touches no element.
std::optional<OpProfile> make_profile(const c10::OperatorHandle& op, const std::string& name);

}  // namespace streamguard::values
