#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include "stream_fill.h"

namespace streamguard::values {

// Tensors made of several plain ones: sparse (COO and compressed) and strided nested tensors. Their
// kernels on the device are not replaced one by one; the op as a whole runs on the CPU.

bool is_compound(const at::Tensor& tensor);

// The same tensor on the CPU, over the bytes of its parts on the device; also for a plain one.
at::Tensor compound_on_cpu(const at::Tensor& tensor, bool is_written);

// A CPU result on the device: its parts are allocated now and their bytes come with `fill`.
at::Tensor compound_on_device(const at::Tensor& result, c10::Device device, StreamFill& fill);

// Gives a written argument the parts that a CPU kernel gave to its stand-in.
//
// REQUIRES: is_compound(argument).
void update_written(const at::Tensor& argument, const at::Tensor& stand_in, StreamFill& fill);

}  // namespace streamguard::values
