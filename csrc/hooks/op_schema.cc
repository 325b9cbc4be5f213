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

constexpr std::array<std::string_view, 3> kFactoryOps = {
    "aten::empty",
    "aten::empty_strided",
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
  if (contains(kMetadataOps, name) || returns_view(schema)) return OpClass::kNotObserved;
  return OpClass::kKernel;
}

}  // namespace

OpSchema describe(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpSchema result{schema.name(), classify(schema), {}, {}};
  for (const c10::Argument& argument : schema.arguments()) {
    ArgumentUse use = ArgumentUse::kNone;
    if (holds_tensors(argument.type())) {
      const bool is_written = argument.alias_info() != nullptr && argument.alias_info()->isWrite();
      use = is_written ? ArgumentUse::kWrite : ArgumentUse::kRead;
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
