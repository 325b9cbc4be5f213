#include "scopes.h"

#include <c10/core/DispatchKeySet.h>
#include <dlfcn.h>

namespace streamguard::values {
namespace {

using c10::DispatchKey;
using c10::DispatchKeySet;
using SuppressionCounter = int* (*)();

SuppressionCounter suppression_counter = nullptr;
thread_local int enclosing_kernels = 0;

const DispatchKeySet& keys_above_backend() {
  static const DispatchKeySet keys =
      c10::autograd_dispatch_keyset_with_ADInplaceOrView | c10::autocast_dispatch_keyset |
      DispatchKeySet({DispatchKey::Python, DispatchKey::PythonTLSSnapshot,
                      DispatchKey::PythonDispatcher, DispatchKey::PreDispatch,
                      DispatchKey::Functionalize, DispatchKey::FuncTorchDynamicLayerBackMode,
                      DispatchKey::FuncTorchDynamicLayerFrontMode});
  return keys;
}

}  // namespace

BackendScope::BackendScope()
    : dispatch_keys_(DispatchKeySet(DispatchKey::BackendSelect), keys_above_backend()) {}

EnclosedKernelScope::EnclosedKernelScope() : suppressed_copies_(suppression_counter()) {
  ++enclosing_kernels;
  ++*suppressed_copies_;
}

EnclosedKernelScope::~EnclosedKernelScope() {
  --*suppressed_copies_;
  --enclosing_kernels;
}

bool EnclosedKernelScope::is_active() { return enclosing_kernels > 0; }

bool resolve_copy_suppression() {
  suppression_counter =
      reinterpret_cast<SuppressionCounter>(dlsym(RTLD_DEFAULT, "streamguard_vgpu_suppress_copies"));
  return suppression_counter != nullptr;
}

void tell_runtime(bool are_computed) {
  const auto tell =
      reinterpret_cast<void (*)(int)>(dlsym(RTLD_DEFAULT, "streamguard_vgpu_set_values_computed"));
  if (tell != nullptr) tell(are_computed ? 1 : 0);
}

}  // namespace streamguard::values
