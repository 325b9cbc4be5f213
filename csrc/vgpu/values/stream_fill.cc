#include "stream_fill.h"

#include <c10/cuda/CUDAException.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <exception>
#include <memory>
#include <utility>

#include "cpu_alias.h"
#include "error_slot.h"
#include "scopes.h"

namespace streamguard::values {

void StreamFill::add(const at::Tensor& on_device, const at::Tensor& result) {
  if (result.numel() > 0) writes_.push_back({alias_for_writing(on_device), result});
}

void StreamFill::run_on_stream(void* payload) {
  const std::unique_ptr<StreamFill> fill(static_cast<StreamFill*>(payload));
  try {
    const BackendScope scope;
    for (const Write& write : fill->writes_) write.alias.copy_(write.result);
  } catch (const std::exception& error) {
    ErrorSlot::instance().record("a result on its way to the device", error.what());
  }
}

void StreamFill::enqueue(c10::Device device) && {
  if (writes_.empty()) return;
  const c10::cuda::CUDAGuard guard(device);
  const auto stream = c10::cuda::getCurrentCUDAStream(device.index());
  // Released before the launch: the eager schedule runs, and frees, it inside.
  StreamFill* const payload = std::make_unique<StreamFill>(std::move(*this)).release();
  const cudaError_t status = cudaLaunchHostFunc(stream.stream(), run_on_stream, payload);
  if (status != cudaSuccess) const std::unique_ptr<StreamFill> unused(payload);
  C10_CUDA_CHECK(status);
  ErrorSlot::instance().throw_if_set();
}

}  // namespace streamguard::values
