#pragma once

#include <ATen/core/Tensor.h>

#include <vector>

#include "core/access.h"

namespace streamguard::hooks {

/// A tensor with more separate runs of bytes than this is described by its first runs only, so that
/// one op stays cheap; `append_regions` says so. Left-out bytes can hide a race but never invent
/// one.
inline constexpr int64_t kMaxRegionsPerTensor = 1024;

/// Appends exactly the bytes that `tensor` can address, as contiguous runs or as equal rows at one
/// pitch; several of them where two levels of strides are not enough.
///
/// Nothing is appended for tensors without elements, without storage (sparse, undefined) or without
/// memory (meta, fake).
///
/// Returns: whether the description is complete (see kMaxRegionsPerTensor).
/// Cost: a few ns for a dense tensor; no allocation once `accesses` has grown.
bool append_regions(const at::Tensor& tensor, core::AccessKind kind,
                    std::vector<core::Access>& accesses);

}  // namespace streamguard::hooks
