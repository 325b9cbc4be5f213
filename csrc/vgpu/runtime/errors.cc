#include "errors.h"

#include <atomic>
#include <cctype>
#include <string>
#include <unordered_map>

#include "export.h"

namespace streamguard::vgpu {
namespace {

thread_local cudaError_t last_error = cudaSuccess;
std::atomic<cudaError_t> dead_device_error{cudaSuccess};

struct ErrorName {
  cudaError_t value;
  const char* name;
};

// Generated from driver_types.h by csrc/vgpu/stubs/error_names.py.
constexpr ErrorName kErrorNames[] = {
#include "error_names.inc"
};

// "cudaErrorInvalidDevice" -> "invalid device": programs match on a few texts, listed below;
// for the rest readable words are enough.
std::string words_of(const std::string& name) {
  std::string words;
  for (size_t i = std::string("cudaError").size(); i < name.size(); ++i) {
    const auto letter = static_cast<unsigned char>(name[i]);
    if (std::isupper(letter) != 0 && !words.empty()) words += ' ';
    words += static_cast<char>(std::tolower(letter));
  }
  return words;
}

std::unordered_map<int, std::string> make_texts() {
  std::unordered_map<int, std::string> texts;
  for (const ErrorName& entry : kErrorNames) texts[entry.value] = words_of(entry.name);
  texts[cudaSuccess] = "no error";
  texts[cudaErrorInvalidValue] = "invalid argument";
  texts[cudaErrorMemoryAllocation] = "out of memory";
  texts[cudaErrorInvalidDevice] = "invalid device ordinal";
  texts[cudaErrorNoDevice] = "no CUDA-capable device is detected";
  texts[cudaErrorNotReady] = "device not ready";
  texts[cudaErrorLaunchFailure] = "unspecified launch failure";
  texts[cudaErrorNotSupported] = "operation not supported";
  texts[cudaErrorInvalidResourceHandle] = "invalid resource handle";
  texts[cudaErrorStreamCaptureUnsupported] = "operation not permitted when stream is capturing";
  texts[cudaErrorStreamCaptureInvalidated] =
      "operation failed due to a previous error during capture";
  texts[cudaErrorPeerAccessAlreadyEnabled] = "peer access is already enabled";
  texts[cudaErrorPeerAccessNotEnabled] = "peer access has not been enabled";
  return texts;
}

}  // namespace

cudaError_t fail(cudaError_t error) {
  if (error != cudaSuccess && error != cudaErrorNotReady) last_error = error;
  return error;
}

void set_sticky_error(cudaError_t error) { dead_device_error = error; }

cudaError_t sticky_error() { return dead_device_error.load(std::memory_order_relaxed); }

cudaError_t take_last_error() {
  const cudaError_t error = peek_last_error();
  last_error = cudaSuccess;
  return error;
}

cudaError_t peek_last_error() {
  const cudaError_t sticky = sticky_error();
  return sticky != cudaSuccess ? sticky : last_error;
}

}  // namespace streamguard::vgpu

using namespace streamguard::vgpu;

VGPU_API cudaError_t cudaGetLastError() { return take_last_error(); }

VGPU_API cudaError_t cudaPeekAtLastError() { return peek_last_error(); }

VGPU_API const char* cudaGetErrorName(cudaError_t error) {
  for (const ErrorName& entry : kErrorNames) {
    if (entry.value == error) return entry.name;
  }
  return "unrecognized error code";
}

VGPU_API const char* cudaGetErrorString(cudaError_t error) {
  static const auto* const kTexts = new std::unordered_map<int, std::string>(make_texts());
  const auto found = kTexts->find(error);
  return found == kTexts->end() ? "unrecognized error code" : found->second.c_str();
}
