#include "copies.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/ops/empty.h>

namespace streamguard::values {

CopyRoute route_of(const at::Tensor& destination, const at::Tensor& source) {
  if (destination.device() == source.device()) return CopyRoute::kWithinDevice;
  if (!destination.is_cuda() || !source.is_cuda()) return CopyRoute::kRuntime;
  const bool is_memcpy = destination.dtype() == source.dtype() &&
                         destination.sizes() == source.sizes() && destination.is_contiguous() &&
                         source.is_contiguous() && destination.is_conj() == source.is_conj() &&
                         destination.is_neg() == source.is_neg();
  return is_memcpy ? CopyRoute::kRuntime : CopyRoute::kStaged;
}

void copy_staged(const at::Tensor& destination, const at::Tensor& source) {
  const at::AutoDispatchBelowADInplaceOrView below_autograd;
  const at::Tensor packed = at::empty(source.sizes(), source.options());
  packed.copy_(source);
  const at::Tensor arrived =
      at::empty(source.sizes(), source.options().device(destination.device()));
  arrived.copy_(packed);
  destination.copy_(arrived.expand_as(destination));
}

}  // namespace streamguard::values
