#include "op_tables.h"

#include <algorithm>
#include <array>

namespace streamguard::values {
namespace {

using std::literals::operator""sv;

template <std::size_t n>
bool is_in(const std::array<std::string_view, n>& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

template <std::size_t n>
bool starts_with_one_of(const std::array<std::string_view, n>& prefixes, std::string_view name) {
  return std::any_of(prefixes.begin(), prefixes.end(),
                     [name](std::string_view prefix) { return name.starts_with(prefix); });
}

constexpr std::array kMetadata = {
    "aten::empty.memory_format"sv,
    "aten::empty_strided"sv,
    "aten::as_strided"sv,
    "aten::view"sv,
    "aten::view.dtype"sv,
    "aten::_reshape_alias"sv,
    "aten::unfold"sv,
    "aten::resize_"sv,
    "aten::resize_as_sparse_"sv,
    "aten::set_"sv,
    "aten::set_.source_Storage"sv,
    "aten::set_.source_Storage_storage_offset"sv,
    "aten::set_.source_Tensor"sv,
    "aten::is_set_to"sv,
    "aten::is_pinned"sv,
    "aten::_pin_memory"sv,
    "aten::record_stream"sv,
    "aten::_efficientzerotensor"sv,
    "aten::_fused_sdp_choice"sv,
    "aten::_use_cudnn_ctc_loss"sv,
    "aten::_use_cudnn_ctc_loss.Tensor"sv,
    "aten::_use_miopen_ctc_loss"sv,
    "aten::_use_miopen_ctc_loss.Tensor"sv,
};

constexpr std::array kLeafWithoutCudaKernel = {
    "aten::copy_"sv,
    "aten::convolution"sv,
    "aten::convolution_backward"sv,
    "aten::convolution_overrideable"sv,
    "aten::conj_physical_"sv,
    "aten::ldexp.Tensor"sv,
    "aten::ldexp.out"sv,
    "aten::mode.values"sv,
};

constexpr std::array kValuesAtIssue = {
    "aten::bincount"sv,
    "aten::histc"sv,
    "aten::histc.out"sv,
    "aten::repeat_interleave.Tensor"sv,
    "aten::_unique"sv,
    "aten::_unique2"sv,
    "aten::unique_dim"sv,
    "aten::unique_consecutive"sv,
    "aten::unique_dim_consecutive"sv,
    "aten::_ctc_loss"sv,
    "aten::_ctc_loss.Tensor"sv,
    "aten::segment_reduce"sv,
    "aten::_segment_reduce_backward"sv,
    "aten::embedding_renorm_"sv,
    "aten::linalg_lstsq"sv,
    "aten::linalg_lstsq.out"sv,
    "aten::mode"sv,
    "aten::mode.values"sv,
};

// Plain reductions and element-wise kernels whose name only starts like the solvers'.
constexpr std::array kOrdinaryLinearAlgebra = {
    "aten::linalg_vector_norm"sv, "aten::linalg_vector_norm.out"sv, "aten::linalg__powsum"sv,
    "aten::linalg__powsum.out"sv, "aten::linalg_cross"sv,           "aten::linalg_cross.out"sv,
};

constexpr std::array kDryRunPrefixes = {
    "aten::_fft_"sv,
    "aten::linalg_"sv,
    "aten::_linalg_"sv,
    "aten::cholesky_inverse"sv,
    "aten::ormqr"sv,
    "aten::geqrf"sv,
    "aten::triangular_solve"sv,
    "aten::_cholesky_"sv,
    "aten::_embedding_bag"sv,
};

constexpr std::array kMadeOfOpsPrefixes = {"aten::_to_sparse"sv, "aten::_nested"sv};

constexpr std::array kQuantizingPrefixes = {"aten::quantize_per_"sv, "aten::_make_per_"sv};

constexpr std::array kSparseKernels = {
    "aten::_coalesce"sv,
    "aten::_sparse_csr_prod"sv,
    "aten::_sparse_csr_sum"sv,
    "aten::_sparse_log_softmax"sv,
    "aten::_sparse_log_softmax_backward_data"sv,
    "aten::_sparse_mask_projection"sv,
    "aten::_sparse_softmax"sv,
    "aten::_sparse_softmax_backward_data"sv,
    "aten::_sparse_sparse_matmul"sv,
    "aten::_sparse_sum_backward"sv,
    "aten::_spsolve"sv,
    "aten::add"sv,
    "aten::add_"sv,
    "aten::addmm"sv,
    "aten::addmm_"sv,
    "aten::addmv"sv,
    "aten::baddbmm"sv,
    "aten::bmm"sv,
    "aten::hspmm"sv,
    "aten::mm"sv,
    "aten::mul"sv,
    "aten::mul_"sv,
    "aten::mv"sv,
    "aten::sparse_mask"sv,
    "aten::sparse_sampled_addmm"sv,
    "aten::sspaddmm"sv,
    "aten::triangular_solve"sv,
};

constexpr std::array kNestedKernels = {
    "aten::_fused_sdp_choice"sv,
    "aten::_native_multi_head_attention"sv,
    "aten::_nested_tensor_softmax_with_shape"sv,
    "aten::_scaled_dot_product_efficient_attention"sv,
    "aten::_scaled_dot_product_flash_attention"sv,
    "aten::_softmax"sv,
    "aten::_softmax_backward_data"sv,
    "aten::_transform_bias_rescale_qkv"sv,
    "aten::add"sv,
    "aten::add_"sv,
    "aten::bmm"sv,
    "aten::mul"sv,
    "aten::mul_"sv,
    "aten::native_layer_norm"sv,
    "aten::native_layer_norm_backward"sv,
    "aten::sub"sv,
    "aten::to_padded_tensor"sv,
};

}  // namespace

bool is_metadata_op(std::string_view name) { return is_in(kMetadata, name); }

bool is_leaf_without_cuda_kernel(std::string_view name) {
  return is_in(kLeafWithoutCudaKernel, name);
}

bool needs_values_at_issue(std::string_view name) { return is_in(kValuesAtIssue, name); }

bool allocates_by_dry_run(std::string_view name) {
  return starts_with_one_of(kDryRunPrefixes, name) && !is_in(kOrdinaryLinearAlgebra, name);
}

bool is_made_of_ops(std::string_view name) { return starts_with_one_of(kMadeOfOpsPrefixes, name); }

bool has_nested_kernel(std::string_view base_name) { return is_in(kNestedKernels, base_name); }

bool makes_nested(std::string_view name) { return name == "aten::_nested_from_padded"; }

bool makes_quantized(std::string_view name) {
  return starts_with_one_of(kQuantizingPrefixes, name);
}

bool has_sparse_kernel(std::string_view base_name) { return is_in(kSparseKernels, base_name); }

}  // namespace streamguard::values
