#pragma once

#include <string_view>

#include "cpu_kernel.h"

namespace streamguard::values {

// A CPU kernel of ours for an op that has none, or whose registered one does not accept what the
// CUDA kernel accepts or returned. nullptr: the registered kernel fits.
CpuKernel find_substitute(std::string_view name);

// Statistics and buffers whose dtype or shape differ between the devices.
void layer_norm_backward(CpuCall& call);
void group_norm_backward(CpuCall& call);
void batch_norm_backward(CpuCall& call);
void log_sigmoid_backward(CpuCall& call);
void fused_rms_norm_backward(CpuCall& call);

// softmax and log_softmax of half precision input with a float32 result, which only the device
// fuses.
void softmax_to_float(CpuCall& call);
void softmax_backward(CpuCall& call);

// Random masks.
void dropout(CpuCall& call);
void fused_dropout(CpuCall& call);
void masked_scale(CpuCall& call);

// Products with a result of another dtype.
void mm_to_dtype(CpuCall& call);
void bmm_to_dtype(CpuCall& call);
void addmm_to_dtype(CpuCall& call);
void baddbmm_to_dtype(CpuCall& call);

// Fused recurrent cells.
void lstm_cell(CpuCall& call);
void lstm_cell_backward(CpuCall& call);
void gru_cell(CpuCall& call);
void gru_cell_backward(CpuCall& call);

// Fused attention, without dropout.
void flash_attention(CpuCall& call);
void flash_attention_backward(CpuCall& call);
void efficient_attention(CpuCall& call);
void efficient_attention_backward(CpuCall& call);

// Parts of synchronised batch normalisation.
void batch_norm_stats(CpuCall& call);
void batch_norm_gather_stats_with_counts(CpuCall& call);
void batch_norm_elemt(CpuCall& call);
void batch_norm_backward_reduce(CpuCall& call);
void batch_norm_backward_elemt(CpuCall& call);

}  // namespace streamguard::values
