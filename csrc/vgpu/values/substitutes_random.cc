#include <ATen/CPUGeneratorImpl.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/mul.h>
#include <ATen/ops/zeros_like.h>

#include "substitutes.h"

namespace streamguard::values {

// (input, p, train?) -> (output, mask). The registered CPU kernel draws from the process-wide CPU
// generator, which belongs to the program.
void dropout(CpuCall& call) {
  const at::Tensor input = call.stack[0].toTensor();
  const double p = call.stack[1].toDouble();
  const bool is_training = call.stack[2].isNone() || call.stack[2].toBool();
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kBool));
  at::Tensor output;
  if (!is_training) {
    mask.fill_(true);
    output = input.clone();
  } else {
    mask.bernoulli_(1 - p, at::make_generator<at::CPUGeneratorImpl>(call.seed.value()));
    output = p == 1 ? at::zeros_like(input) : input.mul(mask).mul_(1 / (1 - p));
  }
  call.stack.clear();
  call.stack.emplace_back(std::move(output));
  call.stack.emplace_back(std::move(mask));
}

// (self, keep_probability, generator?) -> (output, mask of uint8)
void fused_dropout(CpuCall& call) {
  const at::Tensor input = call.stack[0].toTensor();
  const double keep = call.stack[1].toDouble();
  at::Tensor mask = at::empty_like(input, input.options().dtype(at::kByte));
  mask.bernoulli_(keep, at::make_generator<at::CPUGeneratorImpl>(call.seed.value()));
  at::Tensor output = keep == 0 ? at::zeros_like(input) : input.mul(mask).mul_(1 / keep);
  call.stack.clear();
  call.stack.emplace_back(std::move(output));
  call.stack.emplace_back(std::move(mask));
}

// (self, mask, scale)
void masked_scale(CpuCall& call) {
  at::Tensor result =
      call.stack[0].toTensor().mul(call.stack[1].toTensor()).mul_(call.stack[2].toDouble());
  call.stack.clear();
  call.stack.emplace_back(std::move(result));
}

}  // namespace streamguard::values
