#include "installation.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <memory>

#include "override_kernel.h"
#include "scopes.h"

namespace streamguard::values {
namespace {

constexpr char kNamespace[] = "aten";
constexpr char kPrefix[] = "aten::";

std::vector<InstalledOp>& ops() {
  static auto* const installed = new std::vector<InstalledOp>;
  return *installed;
}

std::string full_name(const c10::OperatorName& name) {
  return name.overload_name.empty() ? name.name : name.name + "." + name.overload_name;
}

// Kernels that exist on the device only; composites then take paths that both devices have.
void prefer_kernels_with_cpu_twins() {
  auto& context = at::globalContext();
  context.setSDPUseFlash(false);
  context.setSDPUseMemEfficient(false);
  context.setSDPUseCuDNN(false);
  context.setUserEnabledCuDNN(false);
}

// Never destroyed: unregistering at exit would pull kernels away under running threads.
torch::Library& leaked_library(c10::DispatchKey key) {
  return *new torch::Library(torch::Library::IMPL, kNamespace, key, __FILE__, __LINE__);
}

void install_override(torch::Library& library, const std::string& op_name, OpProfile profile) {
  const bool has_substitute = profile.cpu_kernel != nullptr &&
                              profile.cpu_kernel != &run_registered_cpu_kernel &&
                              profile.cpu_kernel != &run_kernel_for_arguments;
  ops().push_back({profile.name, profile.treatment, has_substitute});
  auto kernel =
      std::make_unique<OverrideKernel>(std::make_shared<const OpProfile>(std::move(profile)));
  library.impl(op_name.substr(sizeof(kPrefix) - 1).c_str(),
               torch::CppFunction::makeFromBoxedKernel(
                   c10::BoxedKernel::makeFromFunctor(std::move(kernel))));
}

}  // namespace

void install() {
  if (!ops().empty()) return;
  TORCH_CHECK(resolve_copy_suppression(),
              "streamguard: values need the virtual GPU, whose libraries this process has not "
              "loaded. Start it with STREAMGUARD_VGPU=N.");
  prefer_kernels_with_cpu_twins();
  tell_runtime(true);
  torch::Library& dense = leaked_library(c10::DispatchKey::CUDA);
  using c10::DispatchKey;
  const std::array compound_keys{
      CompoundKeys{DispatchKey::SparseCUDA, DispatchKey::SparseCPU, " (sparse)"},
      CompoundKeys{DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU, " (sparse compressed)"},
      CompoundKeys{DispatchKey::NestedTensorCUDA, DispatchKey::NestedTensorCPU, " (nested)"}};
  std::vector<torch::Library*> compound_libraries;
  for (const CompoundKeys& keys : compound_keys) {
    compound_libraries.push_back(&leaked_library(keys.device));
  }
  for (const auto& operator_name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!operator_name.name.starts_with(kPrefix)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(operator_name);
    if (!op) continue;
    const std::string name = full_name(operator_name);
    if (auto profile = make_profile(*op, name)) install_override(dense, name, *std::move(profile));
    for (std::size_t index = 0; index < compound_keys.size(); ++index) {
      if (auto profile = make_compound_profile(*op, name, compound_keys[index])) {
        install_override(*compound_libraries[index], name, *std::move(profile));
      }
    }
  }
  std::sort(ops().begin(), ops().end(), [](const InstalledOp& left, const InstalledOp& right) {
    return left.name < right.name;
  });
}

const std::vector<InstalledOp>& installed_ops() { return ops(); }

}  // namespace streamguard::values
