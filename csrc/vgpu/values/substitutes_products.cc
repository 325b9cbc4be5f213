#include <ATen/ops/addmm.h>
#include <ATen/ops/baddbmm.h>
#include <ATen/ops/bmm.h>
#include <ATen/ops/mm.h>

#include "substitutes.h"

// Matrix products of half precision operands with a float32 result, which the device accumulates
// without rounding in between.
namespace streamguard::values {
namespace {

at::Tensor operand(const CpuCall& call, std::size_t index, at::ScalarType type) {
  return call.stack[index].toTensor().to(type);
}

// The functional and the out= form differ only in a last argument.
void give(CpuCall& call, std::size_t argument_count, at::Tensor result) {
  if (call.stack.size() > argument_count) {
    at::Tensor out = call.stack[argument_count].toTensor();
    out.copy_(result);
    result = std::move(out);
  }
  call.stack.clear();
  call.stack.emplace_back(std::move(result));
}

}  // namespace

// (self, mat2, out_dtype[, out])
void mm_to_dtype(CpuCall& call) {
  const auto type = call.stack[2].toScalarType();
  give(call, 3, at::mm(operand(call, 0, type), operand(call, 1, type)));
}

void bmm_to_dtype(CpuCall& call) {
  const auto type = call.stack[2].toScalarType();
  give(call, 3, at::bmm(operand(call, 0, type), operand(call, 1, type)));
}

// (self, mat1, mat2, out_dtype, beta, alpha[, out])
void addmm_to_dtype(CpuCall& call) {
  const auto type = call.stack[3].toScalarType();
  give(call, 6,
       at::addmm(operand(call, 0, type), operand(call, 1, type), operand(call, 2, type),
                 call.stack[4].toScalar(), call.stack[5].toScalar()));
}

void baddbmm_to_dtype(CpuCall& call) {
  const auto type = call.stack[3].toScalarType();
  give(call, 6,
       at::baddbmm(operand(call, 0, type), operand(call, 1, type), operand(call, 2, type),
                   call.stack[4].toScalar(), call.stack[5].toScalar()));
}

}  // namespace streamguard::values
