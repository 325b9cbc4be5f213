#include "op_profile.h"

#include <string_view>

#include "op_tables.h"
#include "substitutes.h"

namespace streamguard::values {
namespace {

bool is_generator(const c10::Argument& argument) {
  const std::string type = argument.type()->str();
  return type == "Generator" || type == "Generator?" || type == "Optional[Generator]";
}

bool returns_view(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.alias_info() != nullptr && !result.alias_info()->isWrite()) return true;
  }
  return false;
}

bool returns_non_tensor(const c10::FunctionSchema& schema) {
  for (const auto& result : schema.returns()) {
    if (result.type()->str().find("Tensor") == std::string::npos) return true;
  }
  return false;
}

std::optional<std::size_t> argument_returned_as(const c10::FunctionSchema& schema,
                                                const c10::Argument& result) {
  if (result.alias_info() == nullptr) return std::nullopt;
  for (std::size_t index = 0; index < schema.arguments().size(); ++index) {
    const auto* const alias = schema.arguments()[index].alias_info();
    if (alias != nullptr && alias->beforeSets() == result.alias_info()->beforeSets()) return index;
  }
  return std::nullopt;
}

Treatment choose_treatment(const c10::OperatorHandle& op, const OpProfile& profile) {
  const std::string& name = profile.name;
  if (name == "aten::_local_scalar_dense") return Treatment::kErrorCheck;
  if (name == "aten::copy_") return Treatment::kCopy;
  if (is_made_of_ops(name)) return Treatment::kMadeOfOps;
  if (profile.cpu_kernel == nullptr || makes_quantized(name)) return Treatment::kNotComputed;
  // Ours return tensors; what else the op returns comes from the previous kernel.
  if (profile.cpu_kernel != &run_registered_cpu_kernel) return Treatment::kTwin;
  if (needs_values_at_issue(name)) return Treatment::kAtIssue;
  if (returns_non_tensor(op.schema())) return Treatment::kAtIssue;
  if (!profile.may_take_masks &&
      (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output))) {
    return Treatment::kAtIssue;
  }
  if (allocates_by_dry_run(name)) return Treatment::kDryRun;
  return Treatment::kTwin;
}

void describe_arguments(const c10::FunctionSchema& schema, OpProfile& profile) {
  for (std::size_t index = 0; index < schema.arguments().size(); ++index) {
    const auto& argument = schema.arguments()[index];
    if (is_generator(argument)) profile.generator_argument = index;
    const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
    profile.arguments.push_back({is_written, argument.is_out()});
    profile.writes_arguments |= is_written;
    profile.has_out_arguments |= argument.is_out();
  }
  for (const auto& result : schema.returns()) {
    profile.returned_argument.push_back(argument_returned_as(schema, result));
  }
}

bool has_kernel_on_device(const c10::OperatorHandle& op, const std::string& name) {
  return (op.hasKernelForDispatchKey(c10::DispatchKey::CUDA) ||
          is_leaf_without_cuda_kernel(name)) &&
         op.hasComputedKernelForDispatchKey(c10::DispatchKey::CUDA);
}

}  // namespace

const char* to_string(Treatment treatment) {
  switch (treatment) {
    case Treatment::kTwin:
      return "twin";
    case Treatment::kAtIssue:
      return "at issue";
    case Treatment::kDryRun:
      return "dry run";
    case Treatment::kCopy:
      return "copy";
    case Treatment::kErrorCheck:
      return "error check";
    case Treatment::kMadeOfOps:
      return "made of ops";
    case Treatment::kNotComputed:
      return "not computed";
  }
  return "";
}

std::optional<OpProfile> make_compound_profile(const c10::OperatorHandle& op,
                                               const std::string& name, const CompoundKeys& keys) {
  const std::string_view base_name(op.operator_name().name);
  const bool has_own_kernel = keys.device == c10::DispatchKey::NestedTensorCUDA
                                  ? has_nested_kernel(base_name)
                                  : has_sparse_kernel(base_name);
  if (!has_own_kernel || !op.hasKernelForDispatchKey(keys.device)) return std::nullopt;
  OpProfile profile;
  profile.name = name + keys.suffix;
  describe_arguments(op.schema(), profile);
  profile.takes_compound = true;
  profile.treatment = Treatment::kNotComputed;
  if (op.hasKernelForDispatchKey(keys.cpu)) {
    profile.treatment = Treatment::kAtIssue;
    profile.cpu_kernel = &run_kernel_for_arguments;
  }
  profile.previous = op.getComputedKernelForDispatchKey(keys.device).kernelFunction();
  return profile;
}

std::optional<OpProfile> make_profile(const c10::OperatorHandle& op, const std::string& name) {
  if (is_metadata_op(name) || !has_kernel_on_device(op, name)) return std::nullopt;
  if (returns_view(op.schema())) return std::nullopt;

  OpProfile profile;
  profile.name = name;
  describe_arguments(op.schema(), profile);
  profile.is_random =
      op.hasTag(at::Tag::nondeterministic_seeded) || profile.generator_argument.has_value();
  profile.may_take_masks = name == "aten::index.Tensor" || name == "aten::_unsafe_index.Tensor";
  profile.cpu_kernel = find_substitute(name);
  if (profile.cpu_kernel == nullptr && op.hasComputedKernelForDispatchKey(c10::DispatchKey::CPU)) {
    profile.cpu_kernel = &run_registered_cpu_kernel;
  }
  profile.treatment = choose_treatment(op, profile);
  if (makes_nested(name)) {
    profile.treatment = Treatment::kAtIssue;
    profile.takes_compound = true;
  }
  profile.previous = op.getComputedKernelForDispatchKey(c10::DispatchKey::CUDA).kernelFunction();
  return profile;
}

}  // namespace streamguard::values
