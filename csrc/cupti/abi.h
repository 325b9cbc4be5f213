// The part of CUPTI's callback interface that we use, for CUDA 13. Facts: NVIDIA CUPTI 13.0,
// callback API, and the numbering of the runtime domain. Nothing of it needs CUDA's headers.
#pragma once

#include <cstddef>
#include <cstdint>

namespace streamguard::cupti {

using Result = int;  // CUptiResult
inline constexpr Result kSuccess = 0;
inline constexpr Result kMultipleSubscribers = 39;

inline constexpr int kRuntimeDomain = 2;

using Subscription = void*;  // CUpti_SubscriberHandle

enum class Site : int { kEnter = 0, kExit = 1 };

/// CUpti_CallbackData.
struct CallbackData {
  Site site;
  const char* function;
  const void* parameters;  // a structure of parameters.h
  const void* status;      // cudaError_t, at the exit only
  const char* symbol;
  void* context;
  uint32_t context_number;
  uint64_t* shared;
  uint32_t correlation;  // the same at both sites of a call
};

using Callback = void (*)(void* user, int domain, uint32_t function, const CallbackData* data);

using Subscribe = Result (*)(Subscription* subscription, Callback callback, void* user);
using Unsubscribe = Result (*)(Subscription subscription);
using EnableCallback = Result (*)(uint32_t is_enabled, Subscription subscription, int domain,
                                  uint32_t function);
using GetDeviceId = Result (*)(void* context, uint32_t* device);

/// The functions we hear of, by their numbers in the runtime domain.
enum class Function : uint32_t {
  kMalloc = 20,
  kFree = 22,
  kMallocHost = 25,
  kFreeHost = 26,
  kHostAlloc = 27,
  kMemcpy = 31,
  kMemcpyAsync = 41,
  kMemset = 49,
  kMemsetAsync = 51,
  kStreamCreate = 129,
  kStreamSynchronize = 131,
  kStreamQuery = 132,
  kEventRecord = 135,
  kEventSynchronize = 137,
  kEventQuery = 138,
  kStreamWaitEvent = 147,
  kHostRegister = 152,
  kHostUnregister = 153,
  kMemcpyPeerAsync = 161,
  kDeviceSynchronize = 165,
  kStreamCreateWithFlags = 198,
  kStreamDestroy = 201,
  kStreamCreateWithPriority = 202,
  kMallocManaged = 206,
  kLaunchKernel = 211,
  kGraphLaunch = 311,
  kEventRecordWithFlags = 370,
  kMallocAsync = 373,
  kFreeAsync = 375,
  kMallocFromPoolAsync = 391,
  kLaunchKernelExC = 430,
  kLaunchKernelOfStub = 505,  // __cudaLaunchKernel, which nvcc's stubs call
};

inline constexpr Function kFunctions[] = {
    Function::kMalloc,
    Function::kFree,
    Function::kMallocHost,
    Function::kFreeHost,
    Function::kHostAlloc,
    Function::kMemcpy,
    Function::kMemcpyAsync,
    Function::kMemset,
    Function::kMemsetAsync,
    Function::kStreamCreate,
    Function::kStreamSynchronize,
    Function::kStreamQuery,
    Function::kEventRecord,
    Function::kEventSynchronize,
    Function::kEventQuery,
    Function::kStreamWaitEvent,
    Function::kHostRegister,
    Function::kHostUnregister,
    Function::kMemcpyPeerAsync,
    Function::kDeviceSynchronize,
    Function::kStreamCreateWithFlags,
    Function::kStreamDestroy,
    Function::kStreamCreateWithPriority,
    Function::kMallocManaged,
    Function::kLaunchKernel,
    Function::kGraphLaunch,
    Function::kEventRecordWithFlags,
    Function::kMallocAsync,
    Function::kFreeAsync,
    Function::kMallocFromPoolAsync,
    Function::kLaunchKernelExC,
    Function::kLaunchKernelOfStub,
};

}  // namespace streamguard::cupti
