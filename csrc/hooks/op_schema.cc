#include "hooks/op_schema.h"

#include <algorithm>
#include <array>
#include <string_view>

namespace streamguard::hooks {
namespace {

constexpr std::string_view kCopyName = "aten::copy_";
constexpr std::string_view kListCopyName = "aten::_foreach_copy_";

// What has a kernel at a backend key, but no access. Views are recognised by their schema instead.
constexpr std::array<std::string_view, 8> kMetadataOps = {
    "aten::resize_",   "aten::set_",        "aten::is_set_to",       "aten::_fused_sdp_choice",
    "aten::is_pinned", "aten::_pin_memory", "aten::_resize_output_", "aten::_use_cudnn_ctc_loss",
};

// The same, of tensors made of parts: what changes hands is a part as a whole, or its size.
constexpr std::array<std::string_view, 11> kPartOps = {
    "aten::_coalesced_",
    "aten::_sparse_coo_tensor_with_dims",
    "aten::_sparse_coo_tensor_with_dims_and_tensors",
    "aten::sparse_resize_",
    "aten::sparse_resize_and_clear_",
    "aten::resize_as_sparse_",
    "aten::_nested_tensor_size",
    "aten::_nested_tensor_strides",
    "aten::_nested_tensor_storage_offsets",
    "aten::q_per_channel_scales",
    "aten::q_per_channel_zero_points",
};

constexpr std::array<std::string_view, 7> kFactoryOps = {
    "aten::empty",
    "aten::empty_like",
    "aten::empty_strided",
    "aten::empty_quantized",
    "aten::_empty_affine_quantized",
    "aten::_empty_per_channel_affine_quantized",
    "aten::_efficientzerotensor",
};

template <size_t n>
bool contains(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

bool returns_view(const c10::FunctionSchema& schema) {
  return std::any_of(schema.returns().begin(), schema.returns().end(),
                     [](const c10::Argument& value) {
                       return value.alias_info() != nullptr && !value.alias_info()->isWrite();
                     });
}

bool holds_tensors(const c10::TypePtr& type) {
  if (type->isSubtypeOf(*c10::TensorType::get())) return true;
  const auto contained = type->containedTypes();
  return std::any_of(contained.begin(), contained.end(), holds_tensors);
}

OpClass classify(const c10::FunctionSchema& schema) {
  const std::string_view name = schema.name();
  if (name == "aten::record_stream") return OpClass::kRecordStream;
  if (name == kCopyName) return OpClass::kCopy;
  if (name == kListCopyName) return OpClass::kListCopy;
  if (name.substr(0, 6) == "c10d::") return OpClass::kCollective;
  if (contains(kFactoryOps, name)) return OpClass::kFactory;
  if (contains(kMetadataOps, name) || contains(kPartOps, name) || returns_view(schema)) {
    return OpClass::kNotObserved;
  }
  return OpClass::kKernel;
}

}  // namespace

bool touches_tensors(const OpSchema& schema) {
  const auto is_write = [](ArgumentUse use) { return use == ArgumentUse::kWrite; };
  return std::any_of(schema.arguments.begin(), schema.arguments.end(), is_write) ||
         std::any_of(schema.returns.begin(), schema.returns.end(), is_write);
}

OpSchema describe(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpSchema result{schema.name(), classify(schema), {}, {}, false};
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentUse use = ArgumentUse::kNone;
    if (holds_tensors(argument.type())) {
      const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      use = is_written ? ArgumentUse::kWrite : ArgumentUse::kRead;
      result.is_in_place = result.is_in_place || is_written;
    }
    result.arguments.push_back(use);
  }
  for (const c10::Argument& value : schema.returns()) {
    result.returns.push_back(holds_tensors(value.type()) ? ArgumentUse::kWrite
                                                         : ArgumentUse::kNone);
  }
  return result;
}

}  // namespace streamguard::hooks
