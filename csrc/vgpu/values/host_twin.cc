#include "host_twin.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <utility>

#include "arguments.h"
#include "cpu_alias.h"
#include "error_slot.h"
#include "random_seed.h"
#include "scopes.h"

namespace streamguard::values {
namespace {

at::Tensor copy_of_cpu_tensor(const at::Tensor& tensor) {
  // A wrapped number is immutable and must stay marked as one.
  if (tensor.unsafeGetTensorImpl()->is_wrapped_number()) return tensor;
  const BackendScope scope;
  return tensor.clone();
}

void store_tensor(const std::string& op_name, const at::Tensor& destination,
                  const at::Tensor& result) {
  // Auxiliary outputs that one of the devices does not compute are empty there (the saved
  // statistics of batch_norm in evaluation, log_sigmoid's buffer).
  if (!result.defined() || destination.numel() == 0 || result.numel() == 0) return;
  TORCH_CHECK(destination.sizes() == result.sizes(), "result of ", op_name, " has shape ",
              destination.sizes(), " on the device and ", result.sizes(), " on the CPU");
  destination.copy_(result);
}

std::string reason_of(const std::exception& error) {
  const auto* const torch_error = dynamic_cast<const c10::Error*>(&error);
  return torch_error != nullptr ? torch_error->what_without_backtrace() : error.what();
}

void run_on_stream(void* payload) {
  auto* const twin = static_cast<HostTwin*>(payload);
  twin->run();
  // A captured twin belongs to its graph, whose end nobody announces: it stays for the process.
  if (!twin->is_replayable()) delete twin;
}

}  // namespace

void HostTwin::take_arguments(c10::ArrayRef<c10::IValue> arguments) {
  arguments_.reserve(arguments.size());
  for (std::size_t index = 0; index < arguments.size(); ++index) {
    const ArgumentProfile& profile = profile_->arguments[index];
    if (profile.is_out) {
      arguments_.emplace_back();
      continue;
    }
    arguments_.push_back(
        with_tensors_replaced(arguments[index], [&profile](const at::Tensor& tensor) {
          if (!tensor.is_cuda()) return copy_of_cpu_tensor(tensor);
          return profile.is_written ? alias_for_writing(tensor) : alias_for_reading(tensor);
        }));
  }
}

void HostTwin::add_destinations(std::size_t result, const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    if (tensor.defined() && tensor.is_cuda()) {
      destinations_.push_back({result, std::nullopt, alias_for_writing(tensor)});
    }
  } else if (value.isTensorList()) {
    const auto elements = value.toListRef();
    for (std::size_t element = 0; element < elements.size(); ++element) {
      const at::Tensor& tensor = elements[element].toTensor();
      if (tensor.defined() && tensor.is_cuda()) {
        destinations_.push_back({result, element, alias_for_writing(tensor)});
      }
    }
  }
}

bool HostTwin::was_resized(std::size_t index, const at::Tensor& now) const {
  return arguments_[index].isTensor() && arguments_[index].toTensor().sizes() != now.sizes();
}

void HostTwin::redirect_resized_argument(std::size_t index, std::size_t result,
                                         const at::Tensor& resized) {
  copied_arguments_.push_back(index);
  add_destinations(result, resized);
}

void HostTwin::compute(torch::jit::Stack& stack) {
  for (const std::size_t index : copied_arguments_) stack[index] = stack[index].toTensor().clone();
  std::optional<std::uint64_t> seed;
  if (seed_) seed = seed_of_run(*seed_, runs_);
  ++runs_;
  CpuCall call{op_, stack, seed, profile_->generator_argument};
  profile_->cpu_kernel(call);
}

void HostTwin::store(const torch::jit::Stack& results) const {
  for (const Destination& destination : destinations_) {
    const c10::IValue& result = results.at(destination.result);
    if (destination.element) {
      const auto elements = result.toListRef();
      TORCH_CHECK(*destination.element < elements.size(), profile_->name, " returns ",
                  elements.size(), " tensors on the CPU and more on the device");
      store_tensor(profile_->name, destination.alias, elements[*destination.element].toTensor());
    } else {
      store_tensor(profile_->name, destination.alias, result.toTensor());
    }
  }
}

void HostTwin::run() noexcept {
  try {
    const BackendScope scope;
    torch::jit::Stack stack;
    if (is_replayable_) {
      stack = arguments_;
    } else {
      stack = std::move(arguments_);
    }
    compute(stack);
    store(stack);
  } catch (const std::exception& error) {
    ErrorSlot::instance().record(profile_->name, reason_of(error));
  } catch (...) {
    ErrorSlot::instance().record(profile_->name, "unknown exception");
  }
}

bool is_capturing(c10::Device device) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
  C10_CUDA_CHECK(cudaStreamIsCapturing(stream.stream(), &status));
  return status != cudaStreamCaptureStatusNone;
}

void enqueue(std::unique_ptr<HostTwin> twin, c10::Device device) {
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
  HostTwin* const payload = twin.release();
  const cudaError_t status = cudaLaunchHostFunc(stream.stream(), run_on_stream, payload);
  if (status != cudaSuccess) twin.reset(payload);
  C10_CUDA_CHECK(status);
  ErrorSlot::instance().throw_if_set();
}

}  // namespace streamguard::values
