#pragma once

#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

namespace streamguard::hooks {

/// The plain tensors that hold the bytes of a tensor made of parts.
struct TensorParts {
  // What says which elements there are, and the elements themselves.
  c10::SmallVector<at::Tensor, 2> indices;
  c10::SmallVector<at::Tensor, 2> values;
};

/// Whether `tensor` is sparse (COO or compressed) or a strided nested tensor.
bool is_made_of_parts(const at::Tensor& tensor);

/// REQUIRES: `is_made_of_parts(tensor)`. Launches nothing. The sizes of a nested tensor lie on the
/// host: it has no indices, and one part for each component where these are not one run.
TensorParts parts_of(const at::Tensor& tensor);

}  // namespace streamguard::hooks
