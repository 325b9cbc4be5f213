#include "hooks/observer.h"

#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <unordered_set>
#include <utility>

#include "hooks/kernel_observers.h"

namespace streamguard::hooks {
namespace {

// Guarded by the GIL. Never destroyed: a Library that goes away restores the kernels beneath it.
struct Registrations {
  std::map<std::pair<std::string, c10::DispatchKey>, std::unique_ptr<torch::Library>> libraries;
  std::unordered_set<std::string> observed_on_cuda;
  std::unordered_set<std::string> observed_on_cpu;
};

Registrations& registrations() {
  static Registrations& all = *std::make_unique<Registrations>().release();
  return all;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// copy_ is written once for all devices, and launches by itself.
bool has_own_kernel(const c10::OperatorHandle& op, c10::DispatchKey key) {
  if (!op.hasComputedKernelForDispatchKey(key)) return false;
  return op.hasKernelForDispatchKey(key) || op.operator_name().name == "aten::copy_";
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

bool install_one(const c10::OperatorHandle& op, c10::DispatchKey key) {
  Registrations& all = registrations();
  auto& observed = key == c10::DispatchKey::CUDA ? all.observed_on_cuda : all.observed_on_cpu;
  const std::string name = full_name(op.operator_name());
  if (!has_own_kernel(op, key) || !observed.insert(name).second) return false;
  c10::KernelFunction kernel = op.getComputedKernelForDispatchKey(key).kernelFunction();
  OpSchema schema = describe(op);
  std::unique_ptr<KernelObserver> observer =
      key == c10::DispatchKey::CUDA ? make_device_observer(op, std::move(schema), std::move(kernel))
                                    : make_cpu_observer(std::move(schema), std::move(kernel));
  if (observer == nullptr) return false;
  const size_t colons = name.find("::");
  const std::string library_name = name.substr(0, colons);
  auto& library = all.libraries[{library_name, key}];
  if (library == nullptr) {
    library = std::make_unique<torch::Library>(torch::Library::IMPL, library_name, key, __FILE__,
                                               __LINE__);
  }
  library->impl(name.substr(colons + 2).c_str(),
                torch::CppFunction::makeFromBoxedKernel(
                    c10::BoxedKernel::makeFromFunctor(std::move(observer))));
  return true;
}

}  // namespace

size_t install_observers() {
  size_t count = 0;
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (!op) continue;
    count += install_one(*op, c10::DispatchKey::CUDA);
    count += install_one(*op, c10::DispatchKey::CPU);
  }
  return count;
}

std::vector<std::string> unobserved_kernels() {
  std::vector<std::string> names;
  const Registrations& all = registrations();
  for (const c10::OperatorName& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (all.observed_on_cuda.contains(full_name(name))) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op && has_own_kernel(*op, c10::DispatchKey::CUDA) && is_native(*op)) {
      names.push_back(full_name(name));
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace streamguard::hooks
