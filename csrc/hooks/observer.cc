#include "hooks/observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_set>
#include <utility>

#include "hooks/kernel_observers.h"
#include "hooks/unboxed_observers.h"

namespace streamguard::hooks {
namespace {

constexpr c10::DispatchKey kObservedKeys[] = {
    c10::DispatchKey::CUDA,          c10::DispatchKey::CPU,
    c10::DispatchKey::SparseCUDA,    c10::DispatchKey::SparseCsrCUDA,
    c10::DispatchKey::QuantizedCUDA, c10::DispatchKey::NestedTensorCUDA,
};

// Guarded by the GIL. Never destroyed: a Library that goes away restores the kernels beneath it.
struct Registrations {
  std::map<std::pair<std::string, c10::DispatchKey>, std::unique_ptr<torch::Library>> libraries;
  std::map<c10::DispatchKey, std::unordered_set<std::string>> observed;
};

Registrations& registrations() {
  static Registrations& all = *std::make_unique<Registrations>().release();
  return all;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// These are written once for all devices, and launch by themselves.
bool launches_on_all_devices(const std::string& base_name) {
  return base_name == "aten::copy_" || base_name == "aten::ldexp" || base_name == "aten::mode";
}

bool has_own_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  if (!op.hasComputedKernelForDispatchKey(key)) return false;
  return op.hasKernelForDispatchKey(key) || launches_on_all_devices(op.operator_name().name);
}

// A kernel written in Python has only the boxed form, and works through operators that are
// observed.
bool is_native(const c10::OperatorHandle& op) {
  const c10::KernelFunction kernel =
      op.getComputedKernelForDispatchKey(c10::DispatchKey::CUDA).kernelFunction();
  return kernel.isValidUnboxed() || kernel.isValidSymUnboxed();
}

std::unique_ptr<KernelObserver> make_device_observer(const c10::OperatorHandle& op, OpSchema schema,
                                                     c10::KernelFunction kernel) {
  switch (schema.op_class) {
    case OpClass::kNotObserved:
      return nullptr;
    case OpClass::kFactory:
      return make_factory_observer(std::move(schema), std::move(kernel));
    case OpClass::kRecordStream:
      return make_record_stream_observer(std::move(schema), std::move(kernel));
    case OpClass::kCopy:
      return make_copy_observer(std::move(schema), std::move(kernel));
    case OpClass::kListCopy:
      return make_list_copy_observer(std::move(schema), std::move(kernel));
    case OpClass::kCollective:
      return make_collective_observer(op, std::move(schema), std::move(kernel));
    case OpClass::kKernel:
      break;
  }
  return std::make_unique<KernelObserver>(std::move(schema), std::move(kernel));
}

std::unique_ptr<KernelObserver> make_cpu_observer(OpSchema schema, c10::KernelFunction kernel) {
  const bool touches_bytes =
      schema.op_class == OpClass::kKernel || schema.op_class == OpClass::kCopy;
  if (!touches_bytes) return nullptr;
  return make_host_observer(std::move(schema), std::move(kernel));
}

// Sparse, nested and quantized tensors: a kernel of theirs launches by itself, on their parts. But
// it copies part by part with copy_, which knows what becomes of the host's side.
std::unique_ptr<KernelObserver> make_parts_observer(OpSchema schema, c10::KernelFunction kernel) {
  const bool is_watched = schema.op_class == OpClass::kKernel && touches_tensors(schema) &&
                          schema.name != "aten::_to_copy" &&
                          schema.name != "aten::copy_sparse_to_sparse_";
  if (!is_watched) return nullptr;
  return std::make_unique<KernelObserver>(std::move(schema), std::move(kernel));
}

std::unique_ptr<KernelObserver> make_observer(const c10::OperatorHandle& op, c10::DispatchKey key,
                                              OpSchema schema, c10::KernelFunction kernel) {
  if (key == c10::DispatchKey::CUDA) {
    return make_device_observer(op, std::move(schema), std::move(kernel));
  }
  if (key == c10::DispatchKey::CPU) return make_cpu_observer(std::move(schema), std::move(kernel));
  return make_parts_observer(std::move(schema), std::move(kernel));
}

std::optional<torch::CppFunction> make_kernel(const c10::OperatorHandle& op, c10::DispatchKey key,
                                              const OpSchema& schema,
                                              const c10::KernelFunction& kernel) {
  if (key == c10::DispatchKey::CUDA) {
    std::optional<torch::CppFunction> unboxed = make_unboxed_observer(op, schema, kernel);
    if (unboxed) return unboxed;
  }
  std::unique_ptr<KernelObserver> observer = make_observer(op, key, schema, kernel);
  if (observer == nullptr) return std::nullopt;
  return torch::CppFunction::makeFromBoxedKernel(
      c10::BoxedKernel::makeFromFunctor(std::move(observer)));
}

bool install_one(const c10::OperatorHandle& op, c10::DispatchKey key) {
  Registrations& all = registrations();
  const std::string name = full_name(op.operator_name());
  if (!has_own_kernel(op, key) || !all.observed[key].insert(name).second) return false;
  const c10::KernelFunction kernel = op.getComputedKernelForDispatchKey(key).kernelFunction();
  std::optional<torch::CppFunction> observer = make_kernel(op, key, describe(op), kernel);
  if (!observer) return false;
  const size_t colons = name.find("::");
  const std::string library_name = name.substr(0, colons);
  auto& library = all.libraries[{library_name, key}];
  if (library == nullptr) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, library_name, key, __FILE__,
                                               __LINE__);
  }
  library->impl(name.substr(colons + 2).c_str(), std::move(*observer));
  return true;
}

std::atomic<uint64_t> operators_registered{0};

class CountingListener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle&) override {
    operators_registered.fetch_add(1, std::memory_order_relaxed);
  }
  void onOperatorDeregistered(const c10::OperatorHandle&) override {}
};

// Never destroyed, as the registrations.
void count_registrations() {
  static const auto* listening = std::make_unique<c10::RegistrationHandleRAII>(
                                     c10::Dispatcher::singleton().addRegistrationListener(
                                         std::make_unique<CountingListener>()))
                                     .release();
  (void)listening;
}

}  // namespace

uint64_t registration_count() { return operators_registered.load(std::memory_order_relaxed); }

size_t install_observers() {
  count_registrations();
  size_t count = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    for (const c10::DispatchKey key : kObservedKeys) count += install_one(*op, key);
  }
  return count;
}

std::vector<std::string> unobserved_kernels() {
  std::vector<std::string> names;
  const auto& observed = registrations().observed[c10::DispatchKey::CUDA];
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (observed.contains(full_name(name))) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && has_own_kernel(*op, c10::DispatchKey::CUDA) && is_native(*op)) {
      names.push_back(full_name(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace streamguard::hooks
