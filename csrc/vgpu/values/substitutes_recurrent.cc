#include <ATen/TensorOperators.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/sigmoid.h>
#include <ATen/ops/tanh.h>
#include <ATen/ops/zeros_like.h>

#include "substitutes.h"

// torch's CPU path runs a recurrent cell as separate ops; only the device has fused kernels.
// Source of the formulas and of the workspaces' layouts: aten/src/ATen/native/cuda/RNN.cu.
namespace streamguard::values {
namespace {

bool is_given(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

at::Tensor with_bias(const at::Tensor& gates, const c10::IValue& bias) {
  return is_given(bias) ? gates + bias.toTensor() : gates;
}

void give(CpuCall& call, std::initializer_list<at::Tensor> results) {
  call.stack.assign(results.begin(), results.end());
}

// d sigmoid(x) / dx and d tanh(x) / dx, from the activations.
at::Tensor sigmoid_slope(const at::Tensor& activation) { return (1 - activation) * activation; }
at::Tensor tanh_slope(const at::Tensor& activation) { return 1 - activation * activation; }

}  // namespace

// (input_gates [batch, 4 hidden], hidden_gates, cx, input_bias?, hidden_bias?)
//   -> (hy, cy, workspace [batch, 4 hidden]: activated in, forget, cell and out gates)
void lstm_cell(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor cx = stack[2].toTensor();
  const at::Tensor gates =
      with_bias(stack[0].toTensor(), stack[3]) + with_bias(stack[1].toTensor(), stack[4]);
  const auto parts = gates.chunk(4, 1);
  const at::Tensor in = at::sigmoid(parts[0]);
  const at::Tensor forget = at::sigmoid(parts[1]);
  const at::Tensor cell = at::tanh(parts[2]);
  const at::Tensor out = at::sigmoid(parts[3]);
  const at::Tensor cy = forget * cx + in * cell;
  give(call, {out * at::tanh(cy), cy, at::cat({in, forget, cell, out}, 1)});
}

// (grad_hy?, grad_cy?, cx, cy, workspace, has_bias) -> (grad_gates, grad_cx, grad_bias)
void lstm_cell_backward(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor cx = stack[2].toTensor();
  const at::Tensor cy = stack[3].toTensor();
  const at::Tensor grad_hy = is_given(stack[0]) ? stack[0].toTensor() : at::zeros_like(cx);
  const at::Tensor grad_cy = is_given(stack[1]) ? stack[1].toTensor() : at::zeros_like(cx);
  const auto gates = stack[4].toTensor().chunk(4, 1);
  const bool has_bias = stack[5].toBool();
  const at::Tensor &in = gates[0], &forget = gates[1], &cell = gates[2], &out = gates[3];
  const at::Tensor tanh_cy = at::tanh(cy);
  const at::Tensor grad_cell_state = grad_hy * out * tanh_slope(tanh_cy) + grad_cy;
  const at::Tensor grad_gates = at::cat(
      {grad_cell_state * cell * sigmoid_slope(in), grad_cell_state * cx * sigmoid_slope(forget),
       grad_cell_state * in * tanh_slope(cell), grad_hy * tanh_cy * sigmoid_slope(out)},
      1);
  give(call, {grad_gates, grad_cell_state * forget, has_bias ? grad_gates.sum(0) : at::Tensor()});
}

// (input_gates [batch, 3 hidden], hidden_gates, hx, input_bias?, hidden_bias?)
//   -> (hy, workspace [batch, 5 hidden]: reset, update, new gates, hx, hidden part of new)
void gru_cell(CpuCall& call) {
  const auto& stack = call.stack;
  const auto input = with_bias(stack[0].toTensor(), stack[3]).chunk(3, 1);
  const auto hidden = with_bias(stack[1].toTensor(), stack[4]).chunk(3, 1);
  const at::Tensor hx = stack[2].toTensor();
  const at::Tensor reset = at::sigmoid(input[0] + hidden[0]);
  const at::Tensor update = at::sigmoid(input[1] + hidden[1]);
  const at::Tensor fresh = at::tanh(input[2] + reset * hidden[2]);
  give(call, {fresh + update * (hx - fresh), at::cat({reset, update, fresh, hx, hidden[2]}, 1)});
}

// (grad_hy, workspace, has_bias)
//   -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void gru_cell_backward(CpuCall& call) {
  const auto& stack = call.stack;
  const at::Tensor grad_hy = stack[0].toTensor();
  const auto saved = stack[1].toTensor().chunk(5, 1);
  const bool has_bias = stack[2].toBool();
  const at::Tensor &reset = saved[0], &update = saved[1], &fresh = saved[2], &hx = saved[3],
                   &hidden_part = saved[4];
  const at::Tensor grad_update = grad_hy * (hx - fresh) * sigmoid_slope(update);
  const at::Tensor grad_fresh = grad_hy * (1 - update) * tanh_slope(fresh);
  const at::Tensor grad_reset = grad_fresh * hidden_part * sigmoid_slope(reset);
  const at::Tensor grad_input = at::cat({grad_reset, grad_update, grad_fresh}, 1);
  const at::Tensor grad_hidden = at::cat({grad_reset, grad_update, grad_fresh * reset}, 1);
  give(call,
       {grad_input, grad_hidden, grad_hy * update, has_bias ? grad_input.sum(0) : at::Tensor(),
        has_bias ? grad_hidden.sum(0) : at::Tensor()});
}

}  // namespace streamguard::values
