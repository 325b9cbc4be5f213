#include "kernel_twins.h"

#include <cxxabi.h>
#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "export.h"

namespace streamguard::vgpu {
extern thread_local int suppressed_copies;  // copy_api.cc

namespace {

std::atomic<bool> values_are_computed{false};

// "scale" of "_Z5scalePfi"; the name itself when it is not C++'s.
std::string name_without_parameters(const std::string& mangled) {
  int status = 0;
  char* const demangled = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  if (status != 0) return mangled;
  std::string name = demangled;
  std::free(demangled);
  name.resize(std::min(name.size(), name.find('(')));
  return name.rfind("void ", 0) == 0 ? name.substr(5) : name;  // templates name their result
}

class TwinStep final : public Step {
 public:
  TwinStep(const Kernel& kernel, std::shared_ptr<const KernelTwin> twin, const LaunchShape& shape)
      : kernel_(kernel),
        twin_(std::move(twin)),
        grid_{shape.grid.x, shape.grid.y, shape.grid.z},
        block_{shape.block.x, shape.block.y, shape.block.z} {
    // CUDA copies the arguments at the launch as well.
    for (size_t index = 0; index < twin_->argument_bytes.size(); ++index) {
      const size_t words =
          (twin_->argument_bytes[index] + sizeof(max_align_t) - 1) / sizeof(max_align_t);
      values_.emplace_back(words);
      std::memcpy(values_.back().data(), shape.arguments[index], twin_->argument_bytes[index]);
    }
  }

  Outcome run() override {
    std::vector<void*> arguments;
    for (auto& value : values_) arguments.push_back(value.data());
    twin_->function(twin_->context, grid_, block_, arguments.data());
    return Outcome::kDone;
  }
  std::string describe() const override { return kernel_.name; }

 private:
  const Kernel& kernel_;
  const std::shared_ptr<const KernelTwin> twin_;
  unsigned grid_[3];
  unsigned block_[3];
  std::vector<std::vector<max_align_t>> values_;
};

bool is_torchs_own(const Kernel& kernel) {
  Dl_info where{};
  return kernel.host_function != nullptr && dladdr(kernel.host_function, &where) != 0 &&
         std::strstr(where.dli_fname, "libtorch") != nullptr;
}

// Kernels inside an op that has values of its own (`suppressed_copies`) are computed with it.
void tell_once(const Kernel& kernel) {
  if (!values_are_computed || suppressed_copies > 0 || kernel.was_told.exchange(true)) return;
  if (is_torchs_own(kernel)) return;
  std::fprintf(stderr,
               "streamguard: the virtual GPU computes no values for kernel %s: its results are "
               "undefined, stream order is exact. Give it a host twin: "
               "streamguard.vgpu.kernel(\"%s\", function)\n",
               kernel.name.c_str(), name_without_parameters(kernel.name).c_str());
}

}  // namespace

void KernelTwins::set(const std::string& symbol, KernelTwin twin) {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (twin.function == nullptr) {
    by_symbol_.erase(symbol);
  } else {
    by_symbol_[symbol] = std::make_shared<const KernelTwin>(std::move(twin));
  }
}

std::shared_ptr<const KernelTwin> KernelTwins::find(const std::string& kernel) const {
  const std::lock_guard<std::mutex> guard(mutex_);
  if (by_symbol_.empty()) return nullptr;
  auto found = by_symbol_.find(kernel);
  if (found == by_symbol_.end()) found = by_symbol_.find(name_without_parameters(kernel));
  return found == by_symbol_.end() ? nullptr : found->second;
}

KernelTwins& kernel_twins() {
  static auto* const kTwins = new KernelTwins;
  return *kTwins;
}

Work work_of_launch(const Kernel& kernel, const LaunchShape& shape) {
  auto twin = kernel_twins().find(kernel.name);
  if (twin == nullptr) {
    tell_once(kernel);
    return std::monostate{};
  }
  // CUlaunch's packed buffer of arguments, which nobody has asked for yet.
  if (shape.arguments == nullptr && !twin->argument_bytes.empty()) {
    streamguard_vgpu_log_unsupported("a launch with packed arguments, of a kernel with a twin");
    return std::monostate{};
  }
  return std::static_pointer_cast<Step>(std::make_shared<TwinStep>(kernel, std::move(twin), shape));
}

}  // namespace streamguard::vgpu

using namespace streamguard::vgpu;

VGPU_API void streamguard_vgpu_set_kernel_twin(const char* symbol,
                                               streamguard_vgpu_kernel_twin function, void* context,
                                               const size_t* argument_bytes, int arguments) {
  kernel_twins().set(symbol, {function, context, {argument_bytes, argument_bytes + arguments}});
}

VGPU_API void streamguard_vgpu_set_values_computed(int are_computed) {
  values_are_computed = are_computed != 0;
}
