#include "installation.h"

#include <ATen/Context.h>
#include <torch/library.h>

#include <algorithm>
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

void install_override(torch::Library& library, const c10::OperatorHandle& op,
                      const std::string& name) {
  auto profile = make_profile(op, name);
  if (!profile) return;
  ops().push_back(
      {name, profile->treatment,
       profile->cpu_kernel != nullptr && profile->cpu_kernel != &run_registered_cpu_kernel});
  auto kernel =
      std::make_unique<OverrideKernel>(std::make_shared<const OpProfile>(*std::move(profile)));
  library.impl(name.substr(sizeof(kPrefix) - 1).c_str(),
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
  // Never destroyed: unregistering at exit would pull kernels away under running threads.
  auto* const library = new torch::Library(torch::Library::IMPL, kNamespace, c10::DispatchKey::CUDA,
                                           __FILE__, __LINE__);
  for (const auto& name : c10::Dispatcher::singleton().getAllOpNames()) {
    if (!name.name.starts_with(kPrefix)) continue;
    const auto op = c10::Dispatcher::singleton().findSchema(name);
    if (op) install_override(*library, *op, full_name(name));
  }
  std::sort(ops().begin(), ops().end(), [](const InstalledOp& left, const InstalledOp& right) {
    return left.name < right.name;
  });
}

const std::vector<InstalledOp>& installed_ops() { return ops(); }

}  // namespace streamguard::values
