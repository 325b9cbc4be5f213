#include "cpu_alias.h"

#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>

namespace streamguard::values {
namespace {

at::Tensor alias_over(void* bytes, const at::Tensor& tensor) {
  const auto* const storage = tensor.storage().unsafeGetStorageImpl();
  c10::Storage alias_storage(c10::Storage::use_byte_size_t(), storage->nbytes(),
                             c10::DataPtr(bytes, c10::Device(c10::kCPU)), nullptr,
                             /*resizable=*/false);
  auto alias = at::detail::make_tensor<c10::TensorImpl>(
      std::move(alias_storage), c10::DispatchKeySet(c10::DispatchKey::CPU), tensor.dtype());
  auto* const impl = alias.unsafeGetTensorImpl();
  impl->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  // Type promotion treats a wrapped Python number unlike a zero-dim tensor.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) impl->set_wrapped_number(true);
  if (tensor.is_conj()) impl->_set_conj(true);
  if (tensor.is_neg()) impl->_set_neg(true);
  return alias;
}

}  // namespace

at::Tensor alias_for_reading(const at::Tensor& tensor) {
  return alias_over(const_cast<void*>(tensor.storage().data()), tensor);
}

at::Tensor alias_for_writing(const at::Tensor& tensor) {
  return alias_over(tensor.storage().unsafeGetStorageImpl()->mutable_data(), tensor);
}

}  // namespace streamguard::values
