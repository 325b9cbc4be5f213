#pragma once

#include <cuda_runtime_api.h>

namespace streamguard::hooks {

/// While a stream is captured in the global mode, the default, CUDA forbids queries in all threads;
/// not in this thread while this lives.
class RelaxedCapture {
 public:
  RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  ~RelaxedCapture() { cudaThreadExchangeStreamCaptureMode(&mode_); }
  RelaxedCapture(const RelaxedCapture&) = delete;
  RelaxedCapture& operator=(const RelaxedCapture&) = delete;

 private:
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace streamguard::hooks
