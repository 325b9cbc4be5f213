// NCCL calls that make, ask and end communicators.
#include <map>
#include <string>

#include "../export.h"
#include "handles.h"
#include "last_error.h"

using namespace streamguard::vgpu::nccl;

namespace {

ncclResult_t refuse(ncclResult_t result, const std::string& text) {
  set_last_error(text);
  return result;
}

// The name that the program gave; the rest of its settings changes nothing here.
std::string name_in(const ncclConfig_t* config) {
  const auto* known = reinterpret_cast<const ConfigWithName*>(config);
  if (known == nullptr || known->magic != kConfigMagic || known->size < sizeof *known ||
      known->name == nullptr) {
    return "";
  }
  return known->name;
}

ncclResult_t join(ncclComm_t* handle, int ranks, const ncclUniqueId& id, int rank,
                  const ncclConfig_t* config = nullptr) {
  *handle = nullptr;
  if (ranks < 1 || rank < 0 || rank >= ranks) {
    return refuse(ncclInvalidArgument,
                  "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + " ranks");
  }
  int device = 0;
  cudaGetDevice(&device);
  const auto communicator =
      std::make_shared<Communicator>(id, ranks, rank, device, name_in(config));
  ncclResult_t result = communicator->announce();
  if (result == ncclSuccess) {
    *handle = give_out(communicator);
    result = submit_join(communicator);
  }
  if (result != ncclSuccess) {
    set_last_error(communicator->failure_text());
    if (*handle != nullptr) withdraw(*handle);
    *handle = nullptr;
  }
  return result;
}

template <class Body>
ncclResult_t with(ncclComm_t handle, Body body) {
  const std::shared_ptr<Communicator> communicator = find(handle);
  if (communicator == nullptr) return refuse(ncclInvalidArgument, "no such communicator");
  return body(*communicator);
}

ncclResult_t drain(Communicator& communicator) {
  if (communicator.is_aborted() || communicator.async_error() != ncclSuccess) return ncclSuccess;
  return streamguard_vgpu_chain_drain(communicator.chain()) == cudaSuccess ? ncclSuccess
                                                                           : ncclUnhandledCudaError;
}

}  // namespace

VGPU_API ncclResult_t ncclGetVersion(int* version) {
  *version = kNcclVersion;
  return ncclSuccess;
}

VGPU_API ncclResult_t ncclGetUniqueId(ncclUniqueId* id) { return make_unique_id(id); }

VGPU_API ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank,
                                             ncclConfig_t* config) {
  return join(comm, ranks, id, rank, config);
}

VGPU_API ncclResult_t ncclCommInitRank(ncclComm_t* comm, int ranks, ncclUniqueId id, int rank) {
  return join(comm, ranks, id, rank);
}

VGPU_API ncclResult_t ncclCommInitRankScalable(ncclComm_t* comm, int ranks, int rank, int ids,
                                               ncclUniqueId* id, ncclConfig_t* config) {
  if (ids < 1) return refuse(ncclInvalidArgument, "no unique id");
  return join(comm, ranks, id[0], rank, config);
}

VGPU_API ncclResult_t ncclCommInitAll(ncclComm_t* comms, int devices, const int* list) {
  ncclUniqueId id;
  if (const ncclResult_t result = make_unique_id(&id); result != ncclSuccess) return result;
  int previous = 0;
  cudaGetDevice(&previous);
  open_group();
  ncclResult_t result = ncclSuccess;
  for (int rank = 0; rank < devices && result == ncclSuccess; ++rank) {
    const int device = list == nullptr ? rank : list[rank];
    if (cudaSetDevice(device) != cudaSuccess) result = ncclInvalidArgument;
    if (result == ncclSuccess) result = join(&comms[rank], devices, id, rank);
  }
  const ncclResult_t joined = close_group();
  cudaSetDevice(previous);
  return result != ncclSuccess ? result : joined;
}

VGPU_API ncclResult_t ncclCommSplit(ncclComm_t parent, int color, int key, ncclComm_t* comm,
                                    ncclConfig_t* config) {
  *comm = nullptr;
  return with(parent, [&](Communicator& communicator) {
    const Communicator::SplitResult split = communicator.split(color, key);
    if (split.result != ncclSuccess) return refuse(split.result, communicator.failure_text());
    return split.id.has_value() ? join(comm, split.ranks, *split.id, split.rank, config)
                                : ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommFinalize(ncclComm_t comm) { return with(comm, drain); }

VGPU_API ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  return with(comm, [&](Communicator& communicator) {
    const ncclResult_t result = drain(communicator);
    communicator.leave();
    withdraw(comm);
    return result;
  });
}

VGPU_API ncclResult_t ncclCommAbort(ncclComm_t comm) {
  return with(comm, [&](Communicator& communicator) {
    communicator.abort();
    withdraw(comm);
    return ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* error) {
  return with(comm, [&](Communicator& communicator) {
    *error = communicator.async_error();
    return ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  return with(comm, [&](Communicator& communicator) {
    *count = communicator.ranks();
    return ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  return with(comm, [&](Communicator& communicator) {
    *rank = communicator.rank();
    return ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  return with(comm, [&](Communicator& communicator) {
    *device = communicator.device();
    return ncclSuccess;
  });
}

// Registration only speeds real transports up.
VGPU_API ncclResult_t ncclCommRegister(const ncclComm_t comm, void* buffer, size_t, void** handle) {
  return with(comm, [&](Communicator&) {
    *handle = buffer;
    return ncclSuccess;
  });
}

VGPU_API ncclResult_t ncclCommDeregister(const ncclComm_t comm, void*) {
  return with(comm, [](Communicator&) { return ncclSuccess; });
}

VGPU_API ncclResult_t ncclMemAlloc(void** pointer, size_t bytes) {
  return cudaMalloc(pointer, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

VGPU_API ncclResult_t ncclMemFree(void* pointer) {
  return cudaFree(pointer) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}

VGPU_API const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
  }
  return "unknown result code";
}

VGPU_API const char* ncclGetLastError(ncclComm_t comm) {
  thread_local std::string text;
  const std::shared_ptr<Communicator> communicator = find(comm);
  text = communicator == nullptr ? last_error() : communicator->failure_text();
  return text.c_str();
}
