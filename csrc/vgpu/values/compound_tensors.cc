#include "compound_tensors.h"

#include <ATen/NestedTensorImpl.h>
#include <ATen/SparseCsrTensorUtils.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/ops/_nested_view_from_buffer.h>
#include <ATen/ops/_sparse_compressed_tensor_unsafe.h>
#include <ATen/ops/_sparse_coo_tensor_with_dims_and_tensors.h>

#include "cpu_alias.h"
#include "device_results.h"
#include "scopes.h"

namespace streamguard::values {
namespace {

// The tensor with each of its plain parts replaced by `part(part)`, on `device`.
template <class Function>
at::Tensor with_parts(const at::Tensor& tensor, c10::Device device, Function&& part) {
  const BackendScope scope;
  if (tensor.is_nested()) {
    auto* const impl = at::native::get_nested_tensor_impl(tensor);
    return at::_nested_view_from_buffer(part(impl->get_unsafe_storage_as_tensor()),
                                        impl->get_nested_sizes(), impl->get_nested_strides(),
                                        impl->get_storage_offsets());
  }
  const at::TensorOptions options = tensor.options().device(device);
  if (tensor.layout() == c10::kSparse) {
    return at::_sparse_coo_tensor_with_dims_and_tensors(
        tensor.sparse_dim(), tensor.dense_dim(), tensor.sizes(), part(tensor._indices()),
        part(tensor._values()), options, tensor.is_coalesced());
  }
  const auto* const impl = at::sparse_csr::get_sparse_csr_impl(tensor);
  return at::_sparse_compressed_tensor_unsafe(part(impl->compressed_indices()),
                                              part(impl->plain_indices()), part(impl->values()),
                                              tensor.sizes(), options);
}

bool is_compressed(const at::Tensor& tensor) {
  return at::sparse_csr::is_sparse_compressed(tensor);
}

}  // namespace

bool is_compound(const at::Tensor& tensor) {
  return tensor.is_nested() || tensor.layout() == c10::kSparse || is_compressed(tensor);
}

at::Tensor compound_on_cpu(const at::Tensor& tensor, bool is_written) {
  if (!tensor.is_cuda()) return tensor;
  const auto alias = [is_written](const at::Tensor& part) {
    return is_written ? alias_for_writing(part) : alias_for_reading(part);
  };
  return is_compound(tensor) ? with_parts(tensor, c10::kCPU, alias) : alias(tensor);
}

at::Tensor compound_on_device(const at::Tensor& result, c10::Device device, StreamFill& fill) {
  const auto move = [device, &fill](const at::Tensor& part) {
    at::Tensor on_device = empty_on_device_like(part, device);
    fill.add(on_device, part);
    return on_device;
  };
  return is_compound(result) ? with_parts(result, device, move) : move(result);
}

void update_written(const at::Tensor& argument, const at::Tensor& stand_in, StreamFill& fill) {
  if (argument.is_nested()) return;  // its one part has been written in place
  const at::Tensor updated = compound_on_device(stand_in, argument.device(), fill);
  const BackendScope scope;
  if (is_compressed(argument)) {
    const auto* const parts = at::sparse_csr::get_sparse_csr_impl(updated);
    at::sparse_csr::get_sparse_csr_impl(argument)->set_member_tensors(
        parts->compressed_indices(), parts->plain_indices(), parts->values(), updated.sizes());
    return;
  }
  auto* const impl = static_cast<at::SparseTensorImpl*>(argument.unsafeGetTensorImpl());
  impl->raw_resize_(updated.sparse_dim(), updated.dense_dim(), updated.sizes());
  impl->set_indices_and_values_unsafe(updated._indices(), updated._values());
  impl->set_coalesced(updated.is_coalesced());
}

}  // namespace streamguard::values
