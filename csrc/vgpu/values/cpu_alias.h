#pragma once

#include <ATen/core/Tensor.h>

namespace streamguard::values {

// CPU tensors over the very bytes of a virtual device tensor, which lie in host memory.
//
// They own nothing: as with pointers in a real kernel's argument list, the memory may be freed and
// reused before the twin runs, and then the twin reads what is there. That is wanted: it is how a
// missing record_stream becomes visible in the values.
//
// REQUIRES: strided layout, defined. Sizes, strides, offset, conj and neg bits and "wrapped number"
// are those of `tensor` at the call.
at::Tensor alias_for_reading(const at::Tensor& tensor);

// As above; a copy-on-write storage is made the tensor's own first.
at::Tensor alias_for_writing(const at::Tensor& tensor);

}  // namespace streamguard::values
