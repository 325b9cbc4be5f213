// The part of NCCL's binary interface that torch uses: there is no header package for it.
// Values are those of NCCL 2.30; they have been stable since 2.7 where they exist.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_NCCL_ABI_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_NCCL_ABI_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>

constexpr int kNcclVersion = 23007;
constexpr int kNcclNoColor = -1;
constexpr size_t kNcclUniqueIdBytes = 128;

struct ncclComm;
using ncclComm_t = ncclComm*;

struct ncclUniqueId {
  char internal[kNcclUniqueIdBytes];
};

// The virtual GPU has nothing to configure; of what is set only the communicator's name matters.
struct ncclConfig_t;

// Its beginning, from NCCL 2.27 on.
constexpr unsigned kConfigMagic = 0xcafebeef;
struct ConfigWithName {
  size_t size;
  unsigned magic;
  unsigned version;
  int numbers[4];
  const char* network;
  int more_numbers[2];
  const char* name;
};
static_assert(offsetof(ConfigWithName, name) == 48);

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclRedOp_t : int {
  ncclSum = 0,
  ncclProd = 1,
  ncclMax = 2,
  ncclMin = 3,
  ncclAvg = 4,
  ncclNumOps = 5,  // the first number of an operation made by the program
};

enum ncclDataType_t : int {
  ncclInt8 = 0,
  ncclUint8 = 1,
  ncclInt32 = 2,
  ncclUint32 = 3,
  ncclInt64 = 4,
  ncclUint64 = 5,
  ncclFloat16 = 6,
  ncclFloat32 = 7,
  ncclFloat64 = 8,
  ncclBfloat16 = 9,
  ncclFloat8e4m3 = 10,
  ncclFloat8e5m2 = 11,
};

enum ncclScalarResidence_t : int { ncclScalarDevice = 0, ncclScalarHostImmediate = 1 };

namespace streamguard::vgpu::nccl {

inline bool is_data_type(int type) { return type >= ncclInt8 && type <= ncclFloat8e5m2; }

inline size_t size_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
    case ncclUint8:
    case ncclFloat8e4m3:
    case ncclFloat8e5m2:
      return 1;
    case ncclFloat16:
    case ncclBfloat16:
      return 2;
    case ncclInt32:
    case ncclUint32:
    case ncclFloat32:
      return 4;
    case ncclInt64:
    case ncclUint64:
    case ncclFloat64:
      return 8;
  }
  return 0;
}

inline const char* name_of(ncclDataType_t type) {
  switch (type) {
    case ncclInt8:
      return "int8";
    case ncclUint8:
      return "uint8";
    case ncclInt32:
      return "int32";
    case ncclUint32:
      return "uint32";
    case ncclInt64:
      return "int64";
    case ncclUint64:
      return "uint64";
    case ncclFloat16:
      return "float16";
    case ncclFloat32:
      return "float32";
    case ncclFloat64:
      return "float64";
    case ncclBfloat16:
      return "bfloat16";
    case ncclFloat8e4m3:
      return "float8_e4m3";
    case ncclFloat8e5m2:
      return "float8_e5m2";
  }
  return "unknown type";
}

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_NCCL_ABI_H_
