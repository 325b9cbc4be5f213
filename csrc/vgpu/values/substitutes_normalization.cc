#include <ATen/TensorOperators.h>
#include <ATen/ops/abs.h>
#include <ATen/ops/exp.h>

#include <vector>

#include "substitutes.h"

namespace streamguard::values {
namespace {

// Normalisation kernels keep their statistics in float32 on the device whatever the input. The CPU
// keeps them in the input's dtype, except when the parameters are float32 beside a half precision
// input, and its backward kernel insists. The bytes on the device came from the CPU's forward
// kernel, so the conversion loses nothing.
void convert_statistics(CpuCall& call, std::size_t input, std::size_t weight,
                        std::initializer_list<std::size_t> statistics) {
  const at::ScalarType input_type = call.stack[input].toTensor().scalar_type();
  if (!at::isReducedFloatingType(input_type)) return;
  const c10::IValue& weight_value = call.stack[weight];
  const bool is_mixed = weight_value.isTensor() && weight_value.toTensor().defined() &&
                        weight_value.toTensor().scalar_type() == at::kFloat;
  for (const std::size_t index : statistics) {
    const c10::IValue& statistic = call.stack[index];
    if (!statistic.isTensor() || !statistic.toTensor().defined()) continue;
    call.stack[index] = statistic.toTensor().to(is_mixed ? at::kFloat : input_type);
  }
}

}  // namespace

// (grad_out, input, normalized_shape, mean, rstd, weight, bias, output_mask)
void layer_norm_backward(CpuCall& call) {
  convert_statistics(call, 1, 5, {3, 4});
  run_registered_cpu_kernel(call);
}

// (grad_out, input, mean, rstd, weight, N, C, HxW, group, output_mask)
void group_norm_backward(CpuCall& call) {
  convert_statistics(call, 1, 4, {2, 3});
  run_registered_cpu_kernel(call);
}

// (grad_out, input, weight, running_mean, running_var, save_mean, save_invstd, ...), for both
// native_batch_norm_backward and batch_norm_backward
void batch_norm_backward(CpuCall& call) {
  convert_statistics(call, 1, 2, {5, 6});
  run_registered_cpu_kernel(call);
}

// (grad_output, self, buffer): the device kernel keeps no buffer, the CPU kernel needs it.
void log_sigmoid_backward(CpuCall& call) {
  if (call.stack[2].toTensor().numel() == 0) {
    call.stack[2] = at::exp(-at::abs(call.stack[1].toTensor()));
  }
  run_registered_cpu_kernel(call);
}

// (grad_out, input, normalized_shape, rstd, weight?, output_mask) -> (grad_input, grad_weight)
void fused_rms_norm_backward(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor grad_out = stack[0].toTensor().to(at::kFloat);
  const at::Tensor input = stack[1].toTensor().to(at::kFloat);
  const auto normalized_dimensions = static_cast<std::int64_t>(stack[2].toListRef().size());
  const at::Tensor rstd = stack[3].toTensor().to(at::kFloat);
  const bool has_weight = stack[4].isTensor() && stack[4].toTensor().defined();
  const auto wanted = stack[5].toBoolList();

  std::vector<std::int64_t> inner;
  std::vector<std::int64_t> outer;
  for (std::int64_t dimension = 0; dimension < input.dim(); ++dimension) {
    (dimension < input.dim() - normalized_dimensions ? outer : inner).push_back(dimension);
  }
  const at::Tensor normalized = input * rstd;
  const at::Tensor grad = has_weight ? grad_out * stack[4].toTensor().to(at::kFloat) : grad_out;
  at::Tensor grad_input;
  at::Tensor grad_weight;
  if (wanted.get(0)) {
    grad_input = rstd * (grad - normalized * (grad * normalized).mean(inner, /*keepdim=*/true));
  }
  if (wanted.get(1) && has_weight) {
    const at::Tensor products = grad_out * normalized;
    grad_weight = outer.empty() ? products : products.sum(outer);
  }
  call.stack.clear();
  call.stack.emplace_back(std::move(grad_input));
  call.stack.emplace_back(std::move(grad_weight));
}

}  // namespace streamguard::values
