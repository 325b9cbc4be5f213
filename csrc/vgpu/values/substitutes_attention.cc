#include <ATen/TensorOperators.h>
#include <ATen/ops/exp.h>
#include <ATen/ops/full.h>
#include <ATen/ops/logsumexp.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/ones.h>

#include <cmath>
#include <limits>
#include <tuple>

#include "substitutes.h"

// The fused attention kernels, for programs that choose one; by default torch takes the math form
// here. Queries [batch, heads, length, width], keys and values [batch, key_heads, key_length,
// width]. Computed in float32; the copy into the device's results rounds. Source: Dao et al. 2022,
// FlashAttention, appendix B (the backward pass from the saved logsumexp).
namespace streamguard::values {
namespace {

struct Attention {
  at::Tensor query, key, value;  // float32, key heads repeated to the query's
  at::Tensor bias;               // may be undefined
  std::int64_t key_heads = 0;
  double scale = 1;
  bool is_causal = false;
};

bool is_given(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

Attention attention_over(const torch::jit::Stack& stack, std::size_t query, const c10::IValue& bias,
                         bool is_causal, double dropout, const c10::IValue& scale) {
  TORCH_CHECK(dropout == 0, "fused attention with dropout is not computed; choose SDPBackend.MATH");
  const auto wide = [&stack](std::size_t index) { return stack[index].toTensor().to(at::kFloat); };
  Attention attention;
  attention.query = wide(query);
  attention.key = wide(query + 1);
  attention.value = wide(query + 2);
  attention.key_heads = attention.key.size(1);
  const std::int64_t heads = attention.query.size(1);
  if (heads != attention.key_heads) {
    attention.key = attention.key.repeat_interleave(heads / attention.key_heads, 1);
    attention.value = attention.value.repeat_interleave(heads / attention.key_heads, 1);
  }
  if (is_given(bias)) attention.bias = bias.toTensor().to(at::kFloat);
  attention.is_causal = is_causal;
  attention.scale = scale.isNone() ? 1 / std::sqrt(static_cast<double>(attention.query.size(3)))
                                   : scale.toDouble();
  return attention;
}

at::Tensor scores_of(const Attention& attention) {
  at::Tensor scores = at::matmul(attention.query, attention.key.mT()) * attention.scale;
  if (attention.bias.defined()) scores = scores + attention.bias;
  if (attention.is_causal) {
    const at::Tensor allowed = at::ones({scores.size(2), scores.size(3)}, at::kBool).tril();
    scores = scores.masked_fill(allowed.logical_not(), -std::numeric_limits<float>::infinity());
  }
  return scores;
}

std::tuple<at::Tensor, at::Tensor> forward(const Attention& attention) {
  const at::Tensor scores = scores_of(attention);
  const at::Tensor logsumexp = at::logsumexp(scores, -1);
  const at::Tensor weights = at::exp(scores - logsumexp.unsqueeze(-1));
  return {at::matmul(weights, attention.value), logsumexp};
}

at::Tensor summed_over_groups(const at::Tensor& gradient, std::int64_t key_heads) {
  if (gradient.size(1) == key_heads) return gradient;
  return gradient.unflatten(1, {key_heads, gradient.size(1) / key_heads}).sum(2);
}

struct Gradients {
  at::Tensor query, key, value, bias;
};

Gradients backward(const Attention& attention, const at::Tensor& grad_out, const at::Tensor& out,
                   const at::Tensor& logsumexp) {
  const at::Tensor grad = grad_out.to(at::kFloat);
  const at::Tensor weights = at::exp(scores_of(attention) - logsumexp.unsqueeze(-1));
  const at::Tensor correction = (grad * out.to(at::kFloat)).sum(-1, /*keepdim=*/true);
  const at::Tensor grad_scores = weights * (at::matmul(grad, attention.value.mT()) - correction);
  const at::Tensor grad_key = at::matmul(grad_scores.mT(), attention.query) * attention.scale;
  return {at::matmul(grad_scores, attention.key) * attention.scale,
          summed_over_groups(grad_key, attention.key_heads),
          summed_over_groups(at::matmul(weights.mT(), grad), attention.key_heads), grad_scores};
}

// The memory-efficient kernels keep the logsumexp in rows that are padded to this many queries.
constexpr std::int64_t kPaddedRows = 32;

}  // namespace

// (query, key, value, dropout_p, is_causal, return_debug_mask, scale?)
//   -> (output, logsumexp, and seven of which none carries values without dropout)
void flash_attention(CpuCall& call) {
  const auto& stack = call.stack;
  const auto [output, logsumexp] = forward(
      attention_over(stack, 0, c10::IValue(), stack[4].toBool(), stack[3].toDouble(), stack[6]));
  call.stack.assign({output, logsumexp});
  call.stack.resize(9, at::Tensor());
}

// (grad_out, query, key, value, out, logsumexp, cum_seq_q, cum_seq_k, max_q, max_k, dropout_p,
//  is_causal, philox_seed, philox_offset, scale?)
void flash_attention_backward(CpuCall& call) {
  const auto& stack = call.stack;
  const auto gradients = backward(
      attention_over(stack, 1, c10::IValue(), stack[11].toBool(), stack[10].toDouble(), stack[14]),
      stack[0].toTensor(), stack[4].toTensor(), stack[5].toTensor());
  call.stack.assign({gradients.query, gradients.key, gradients.value});
}

// (query, key, value, attn_bias?, compute_log_sumexp, dropout_p, is_causal, scale?)
//   -> (output, log_sumexp, philox_seed, philox_offset)
void efficient_attention(CpuCall& call) {
  const auto& stack = call.stack;
  const auto [output, logsumexp] =
      forward(attention_over(stack, 0, stack[3], stack[6].toBool(), stack[5].toDouble(), stack[7]));
  at::Tensor padded;
  if (stack[4].toBool()) {
    const std::int64_t length = logsumexp.size(2);
    const std::int64_t rows = (length + kPaddedRows - 1) / kPaddedRows * kPaddedRows;
    padded = at::full({logsumexp.size(0), logsumexp.size(1), rows},
                      std::numeric_limits<float>::infinity());
    padded.narrow(2, 0, length).copy_(logsumexp);
  }
  call.stack.assign({output, padded, at::Tensor(), at::Tensor()});
}

// (grad_out, query, key, value, attn_bias, out, logsumexp, philox_seed, philox_offset, dropout_p,
//  grad_input_mask, is_causal, scale?)
void efficient_attention_backward(CpuCall& call) {
  const auto& stack = call.stack;
  const auto attention =
      attention_over(stack, 1, stack[4], stack[11].toBool(), stack[9].toDouble(), stack[12]);
  const at::Tensor logsumexp = stack[6].toTensor().narrow(2, 0, attention.query.size(2));
  const auto gradients = backward(attention, stack[0].toTensor(), stack[5].toTensor(), logsumexp);
  call.stack.assign({gradients.query, gradients.key, gradients.value, gradients.bias});
}

}  // namespace streamguard::values
