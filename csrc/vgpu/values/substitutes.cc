#include "substitutes.h"

#include <algorithm>
#include <array>
#include <utility>

namespace streamguard::values {
namespace {

using std::literals::operator""sv;

constexpr std::array<std::pair<std::string_view, CpuKernel>, 37> kSubstitutes{{
    {"aten::native_layer_norm_backward"sv, &layer_norm_backward},
    {"aten::native_group_norm_backward"sv, &group_norm_backward},
    {"aten::native_batch_norm_backward"sv, &batch_norm_backward},
    {"aten::batch_norm_backward"sv, &batch_norm_backward},
    {"aten::log_sigmoid_backward"sv, &log_sigmoid_backward},
    {"aten::_fused_rms_norm_backward"sv, &fused_rms_norm_backward},
    {"aten::_softmax"sv, &softmax_to_float},
    {"aten::_softmax.out"sv, &softmax_to_float},
    {"aten::_log_softmax"sv, &softmax_to_float},
    {"aten::_log_softmax.out"sv, &softmax_to_float},
    {"aten::_softmax_backward_data"sv, &softmax_backward},
    {"aten::_log_softmax_backward_data"sv, &softmax_backward},
    {"aten::native_dropout"sv, &dropout},
    {"aten::_fused_dropout"sv, &fused_dropout},
    {"aten::_masked_scale"sv, &masked_scale},
    {"aten::mm.dtype"sv, &mm_to_dtype},
    {"aten::mm.dtype_out"sv, &mm_to_dtype},
    {"aten::bmm.dtype"sv, &bmm_to_dtype},
    {"aten::bmm.dtype_out"sv, &bmm_to_dtype},
    {"aten::addmm.dtype"sv, &addmm_to_dtype},
    {"aten::addmm.dtype_out"sv, &addmm_to_dtype},
    {"aten::baddbmm.dtype"sv, &baddbmm_to_dtype},
    {"aten::baddbmm.dtype_out"sv, &baddbmm_to_dtype},
    {"aten::_thnn_fused_lstm_cell"sv, &lstm_cell},
    {"aten::_thnn_fused_lstm_cell_backward_impl"sv, &lstm_cell_backward},
    {"aten::_thnn_fused_gru_cell"sv, &gru_cell},
    {"aten::_thnn_fused_gru_cell_backward"sv, &gru_cell_backward},
    {"aten::batch_norm_stats"sv, &batch_norm_stats},
    {"aten::batch_norm_gather_stats_with_counts"sv, &batch_norm_gather_stats_with_counts},
    {"aten::batch_norm_elemt"sv, &batch_norm_elemt},
    {"aten::batch_norm_elemt.out"sv, &batch_norm_elemt},
    {"aten::batch_norm_backward_reduce"sv, &batch_norm_backward_reduce},
    {"aten::batch_norm_backward_elemt"sv, &batch_norm_backward_elemt},
    {"aten::_scaled_dot_product_flash_attention"sv, &flash_attention},
    {"aten::_scaled_dot_product_flash_attention_backward"sv, &flash_attention_backward},
    {"aten::_scaled_dot_product_efficient_attention"sv, &efficient_attention},
    {"aten::_scaled_dot_product_efficient_attention_backward"sv, &efficient_attention_backward},
}};

}  // namespace

CpuKernel find_substitute(std::string_view name) {
  const auto* const found =
      std::find_if(kSubstitutes.begin(), kSubstitutes.end(),
                   [name](const auto& substitute) { return substitute.first == name; });
  return found == kSubstitutes.end() ? nullptr : found->second;
}

}  // namespace streamguard::values
