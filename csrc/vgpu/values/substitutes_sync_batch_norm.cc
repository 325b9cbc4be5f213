#include <ATen/TensorOperators.h>
#include <ATen/ops/rsqrt.h>
#include <ATen/ops/var.h>

#include <vector>

#include "substitutes.h"

// torch.nn.SyncBatchNorm exists for devices only. Statistics are float32, shape [channels]; the
// channel is dimension 1 of the input.
// Source of the formulas: aten/src/ATen/native/cuda/Normalization.cuh.
namespace streamguard::values {
namespace {

std::vector<std::int64_t> all_but_channel(const at::Tensor& input) {
  std::vector<std::int64_t> dimensions{0};
  for (std::int64_t dimension = 2; dimension < input.dim(); ++dimension) {
    dimensions.push_back(dimension);
  }
  return dimensions;
}

at::Tensor per_channel(const at::Tensor& statistic, const at::Tensor& input) {
  std::vector<std::int64_t> shape(input.dim(), 1);
  shape[1] = input.size(1);
  return statistic.to(at::kFloat).view(shape);
}

at::Tensor wide(const c10::IValue& value) { return value.toTensor().to(at::kFloat); }

bool is_given(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

void give(CpuCall& call, std::initializer_list<at::Tensor> results) {
  call.stack.assign(results.begin(), results.end());
}

}  // namespace

// (input, eps) -> (mean, invstd)
void batch_norm_stats(CpuCall& call) {
  const at::Tensor input = wide(call.stack[0]);
  const auto dimensions = all_but_channel(input);
  const at::Tensor variance = at::var(input, dimensions, /*unbiased=*/false);
  give(call, {input.mean(dimensions), at::rsqrt(variance + call.stack[1].toDouble())});
}

// (input, mean [ranks, channels], invstd, running_mean?, running_var?, momentum, eps, counts)
//   -> (mean, invstd), and moves the running statistics
void batch_norm_gather_stats_with_counts(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor means = wide(stack[1]);
  const at::Tensor invstds = wide(stack[2]);
  const double momentum = stack[5].toDouble();
  const double eps = stack[6].toDouble();
  const at::Tensor counts = wide(stack[7]).view({-1, 1});
  const at::Tensor total = counts.sum();
  const at::Tensor mean = (means * counts).sum(0) / total;
  const at::Tensor variances = invstds.pow(-2) - eps;
  const at::Tensor deviations = means - mean;
  const at::Tensor squares = ((variances + deviations * deviations) * counts).sum(0);
  if (is_given(stack[3])) {
    const at::Tensor running = stack[3].toTensor();
    running.copy_(running * (1 - momentum) + mean * momentum);
  }
  if (is_given(stack[4])) {
    const at::Tensor running = stack[4].toTensor();
    running.copy_(running * (1 - momentum) + squares / (total - 1) * momentum);
  }
  give(call, {mean, at::rsqrt(squares / total + eps)});
}

// (input, weight?, bias?, mean, invstd, eps[, out])
void batch_norm_elemt(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor input = stack[0].toTensor();
  at::Tensor result = (input.to(at::kFloat) - per_channel(stack[3].toTensor(), input)) *
                      per_channel(stack[4].toTensor(), input);
  if (is_given(stack[1])) result = result * per_channel(stack[1].toTensor(), input);
  if (is_given(stack[2])) result = result + per_channel(stack[2].toTensor(), input);
  if (stack.size() > 6) {
    const at::Tensor out = stack[6].toTensor();
    out.copy_(result);
    result = out;
  }
  give(call, {result});
}

// (grad_out, input, mean, invstd, weight?, input_g, weight_g, bias_g)
//   -> (sum_dy, sum_dy_xmu, grad_weight, grad_bias)
void batch_norm_backward_reduce(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor grad = wide(stack[0]);
  const at::Tensor input = stack[1].toTensor();
  const auto dimensions = all_but_channel(input);
  const at::Tensor centred = input.to(at::kFloat) - per_channel(stack[2].toTensor(), input);
  const at::Tensor sum_dy = grad.sum(dimensions);
  const at::Tensor sum_dy_xmu = (grad * centred).sum(dimensions);
  give(call, {sum_dy, sum_dy_xmu, sum_dy_xmu * wide(stack[3]), sum_dy});
}

// (grad_out, input, mean, invstd, weight?, sum_dy, sum_dy_xmu, count)
void batch_norm_backward_elemt(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor input = stack[1].toTensor();
  const at::Tensor invstd = per_channel(stack[3].toTensor(), input);
  const at::Tensor total = wide(stack[7]).sum();
  const at::Tensor mean_dy = per_channel(wide(stack[5]) / total, input);
  const at::Tensor mean_dy_xmu = per_channel(wide(stack[6]) / total, input);
  const at::Tensor centred = input.to(at::kFloat) - per_channel(stack[2].toTensor(), input);
  at::Tensor grad = (wide(stack[0]) - mean_dy - centred * invstd * invstd * mean_dy_xmu) * invstd;
  if (is_given(stack[4])) grad = grad * per_channel(stack[4].toTensor(), input);
  give(call, {grad});
}

}  // namespace streamguard::values
