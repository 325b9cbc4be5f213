#include "hooks/tensor_parts.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorImpl.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/as_strided.h>

namespace streamguard::hooks {
namespace {

bool is_compressed(const at::Tensor& tensor) {
  switch (tensor.layout()) {
    case c10::Layout::SparseCsr:
    case c10::Layout::SparseCsc:
    case c10::Layout::SparseBsr:
    case c10::Layout::SparseBsc:
      return true;
    default:  // torch's enum: a layout that torch adds is not compressed
      return false;
  }
}

// A row of a matrix of sizes or strides.
c10::SmallVector<int64_t, 4> row_of(const at::Tensor& matrix, int64_t row) {
  const int64_t columns = matrix.size(1);
  const int64_t* begin = matrix.const_data_ptr<int64_t>() + row * columns;
  return {begin, begin + columns};
}

void add_components(const at::Tensor& tensor, TensorParts& parts) {
  const auto* nested =
      static_cast<const at::native::NestedTensorImpl*>(tensor.unsafeGetTensorImpl());
  const at::Tensor buffer = nested->get_unsafe_storage_as_tensor();
  if (at::native::nested_tensor_impl_is_contiguous(nested)) {
    parts.values.push_back(buffer);
    return;
  }
  const at::AutoDispatchBelowADInplaceOrView without_autograd;
  const int64_t* offsets = nested->get_storage_offsets().const_data_ptr<int64_t>();
  const int64_t components = nested->get_nested_sizes().size(0);
  for (int64_t i = 0; i < components; ++i) {
    parts.values.push_back(at::as_strided(buffer, row_of(nested->get_nested_sizes(), i),
                                          row_of(nested->get_nested_strides(), i), offsets[i]));
  }
}

}  // namespace

bool is_made_of_parts(const at::Tensor& tensor) {
  return tensor.layout() == c10::Layout::Sparse || is_compressed(tensor) ||
         tensor.unsafeGetTensorImpl()->key_set().has(c10::DispatchKey::NestedTensorCUDA);
}

TensorParts parts_of(const at::Tensor& tensor) {
  TensorParts parts;
  const c10::TensorImpl* impl = tensor.unsafeGetTensorImpl();
  if (tensor.layout() == c10::Layout::Sparse) {
    const auto* sparse = static_cast<const at::SparseTensorImpl*>(impl);
    parts.indices.push_back(sparse->indices());
    parts.values.push_back(sparse->values());
  } else if (is_compressed(tensor)) {
    const auto* sparse = static_cast<const at::SparseCsrTensorImpl*>(impl);
    parts.indices.push_back(sparse->compressed_indices());
    parts.indices.push_back(sparse->plain_indices());
    parts.values.push_back(sparse->values());
  } else {
    add_components(tensor, parts);
  }
  return parts;
}

}  // namespace streamguard::hooks
