#include "substitutes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace streamguard::values {
namespace {

using std::literals::operator""sv;

constexpr std::array<std::pair<std::string_view, CpuKernel>, 7> kSubstitutes{{
    {"aten::native_layer_norm_backward"sv, &layer_norm_backward},
    {"aten::native_group_norm_backward"sv, &group_norm_backward},
    {"aten::native_batch_norm_backward"sv, &batch_norm_backward},
    {"aten::log_sigmoid_backward"sv, &log_sigmoid_backward},
    {"aten::_softmax"sv, &softmax_to_float},
    {"aten::_log_softmax"sv, &log_softmax_to_float},
    {"aten::native_dropout"sv, &dropout},
}};

}  // namespace

CpuKernel find_substitute(std::string_view name) {
  const auto* const found =
      std::find_if(kSubstitutes.begin(), kSubstitutes.end(),
                   [name](const auto& substitute) { return substitute.first == name; });
  return found == kSubstitutes.end() ? nullptr : found->second;
}

}  // namespace streamguard::values
