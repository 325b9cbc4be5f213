// libnvidia-ml: what pynvml asks. Independent of the runtime, so that a process may load it alone.
#include <dlfcn.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "../device_identity.h"
#include "../export.h"
#include "../settings.h"

namespace {

using streamguard::vgpu::settings;

// The part of NVML's ABI used here; values from its public documentation.
enum Result : int {
  kSuccess = 0,
  kUninitialized = 1,
  kInvalidArgument = 2,
  kNotSupported = 3,
  kNotFound = 6,
  kInsufficientSize = 7,
};
struct Memory {
  unsigned long long total, free, used;
};
struct MemoryV2 {
  unsigned version;
  unsigned long long total, reserved, free, used;
};
struct Utilization {
  unsigned gpu, memory;
};
struct PciInfo {
  char bus_id_legacy[16];
  unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
  char bus_id[32];
};
// nvmlDevice_t is a pointer that callers never follow: the physical index plus one.
using Device = char*;

// NVML sees all devices, CUDA_VISIBLE_DEVICES or not.
int installed_devices() {
  static const int kInstalled = [] {
    const char* text = std::getenv("STREAMGUARD_VGPU");
    const int count = text == nullptr ? 1 : std::atoi(text);
    return count > 0 ? count : 1;
  }();
  return kInstalled;
}

int index_of(Device device) { return static_cast<int>(reinterpret_cast<uintptr_t>(device)) - 1; }

bool is_valid(Device device) {
  const int index = index_of(device);
  return index >= 0 && index < installed_devices();
}

int put(char* target, unsigned length, const char* text) {
  const int needed = std::snprintf(target, length, "%s", text);
  return needed < static_cast<int>(length) ? kSuccess : kInsufficientSize;
}

// Bytes in use: this process's runtime knows its own, as there is no common driver.
unsigned long long used_bytes(int physical) {
  using GetInfo = int (*)(size_t*, size_t*);
  using Device = int (*)(int*);
  using SetDevice = int (*)(int);
  const auto get_info = reinterpret_cast<GetInfo>(dlsym(RTLD_DEFAULT, "cudaMemGetInfo"));
  const auto get_device = reinterpret_cast<Device>(dlsym(RTLD_DEFAULT, "cudaGetDevice"));
  const auto set_device = reinterpret_cast<SetDevice>(dlsym(RTLD_DEFAULT, "cudaSetDevice"));
  if (get_info == nullptr || get_device == nullptr || set_device == nullptr) return 0;
  const auto& visible = settings().visible_devices;
  for (size_t ordinal = 0; ordinal < visible.size(); ++ordinal) {
    if (visible[ordinal] != physical) continue;
    int previous = 0;
    size_t free_bytes = 0;
    size_t total_bytes = 0;
    get_device(&previous);
    set_device(static_cast<int>(ordinal));
    const int error = get_info(&free_bytes, &total_bytes);
    set_device(previous);
    return error == 0 ? total_bytes - free_bytes : 0;
  }
  return 0;
}

void put_uuid(char* text, size_t length, int physical) {
  const auto uuid = streamguard::vgpu::physical_uuid(physical);
  const unsigned char* b = uuid.bytes;
  std::snprintf(text, length,
                "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", b[0],
                b[1], b[2], b[3], b[4], b[5], b[6], b[7], b[8], b[9], b[10], b[11], b[12], b[13],
                b[14], b[15]);
}

}  // namespace

VGPU_API int nvmlInit_v2() { return kSuccess; }
VGPU_API int nvmlInit() { return kSuccess; }
VGPU_API int nvmlInitWithFlags(unsigned) { return kSuccess; }
VGPU_API int nvmlShutdown() { return kSuccess; }

VGPU_API const char* nvmlErrorString(int result) {
  switch (result) {
    case kSuccess:
      return "The operation was successful";
    case kUninitialized:
      return "NVML was not first initialized";
    case kInvalidArgument:
      return "A supplied argument is invalid";
    case kNotSupported:
      return "The requested operation is not available on target device";
    case kNotFound:
      return "A query to find an object was unsuccessful";
    case kInsufficientSize:
      return "An input argument is not large enough";
    default:
      return "Unknown error";
  }
}

VGPU_API int nvmlSystemGetDriverVersion(char* text, unsigned length) {
  return put(text, length, "580.0.0-streamguard");
}

VGPU_API int nvmlSystemGetNVMLVersion(char* text, unsigned length) {
  return put(text, length, "13.580.0-streamguard");
}

VGPU_API int nvmlSystemGetCudaDriverVersion_v2(int* version) {
  *version = CUDA_VERSION;
  return kSuccess;
}

VGPU_API int nvmlSystemGetCudaDriverVersion(int* version) {
  return nvmlSystemGetCudaDriverVersion_v2(version);
}

VGPU_API int nvmlDeviceGetCount_v2(unsigned* count) {
  *count = static_cast<unsigned>(installed_devices());
  return kSuccess;
}

VGPU_API int nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

VGPU_API int nvmlDeviceGetHandleByIndex_v2(unsigned index, Device* device) {
  if (static_cast<int>(index) >= installed_devices()) return kInvalidArgument;
  *device = reinterpret_cast<Device>(static_cast<uintptr_t>(index) + 1);
  return kSuccess;
}

VGPU_API int nvmlDeviceGetHandleByIndex(unsigned index, Device* device) {
  return nvmlDeviceGetHandleByIndex_v2(index, device);
}

VGPU_API int nvmlDeviceGetHandleByUUID(const char* uuid, Device* device) {
  char candidate[96];
  for (int index = 0; index < installed_devices(); ++index) {
    put_uuid(candidate, sizeof candidate, index);
    if (std::strcmp(candidate, uuid) == 0) {
      return nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(index), device);
    }
  }
  return kNotFound;
}

VGPU_API int nvmlDeviceGetHandleByPciBusId_v2(const char* bus_id, Device* device) {
  unsigned bus = 0;
  if (std::sscanf(bus_id, "%*x:%x:", &bus) != 1 || bus == 0) return kInvalidArgument;
  return nvmlDeviceGetHandleByIndex_v2(bus - 1, device);
}

VGPU_API int nvmlDeviceGetIndex(Device device, unsigned* index) {
  if (!is_valid(device)) return kInvalidArgument;
  *index = static_cast<unsigned>(index_of(device));
  return kSuccess;
}

VGPU_API int nvmlDeviceGetName(Device device, char* name, unsigned length) {
  if (!is_valid(device)) return kInvalidArgument;
  return put(name, length, streamguard::vgpu::kDeviceName);
}

VGPU_API int nvmlDeviceGetUUID(Device device, char* uuid, unsigned length) {
  if (!is_valid(device)) return kInvalidArgument;
  char text[96];
  put_uuid(text, sizeof text, index_of(device));
  return put(uuid, length, text);
}

VGPU_API int nvmlDeviceGetMemoryInfo(Device device, Memory* memory) {
  if (!is_valid(device)) return kInvalidArgument;
  memory->total = settings().memory_bytes;
  memory->used = used_bytes(index_of(device));
  memory->free = memory->total - memory->used;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetMemoryInfo_v2(Device device, MemoryV2* memory) {
  Memory plain{};
  const int result = nvmlDeviceGetMemoryInfo(device, &plain);
  if (result != kSuccess) return result;
  memory->total = plain.total;
  memory->reserved = 0;
  memory->free = plain.free;
  memory->used = plain.used;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetUtilizationRates(Device device, Utilization* utilization) {
  if (!is_valid(device)) return kInvalidArgument;
  *utilization = {0, 0};
  return kSuccess;
}

VGPU_API int nvmlDeviceGetTemperature(Device device, int, unsigned* celsius) {
  if (!is_valid(device)) return kInvalidArgument;
  *celsius = 40;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetPowerUsage(Device device, unsigned* milliwatts) {
  if (!is_valid(device)) return kInvalidArgument;
  *milliwatts = 0;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetClockInfo(Device device, int, unsigned* mhz) {
  if (!is_valid(device)) return kInvalidArgument;
  *mhz = 1000;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetMaxClockInfo(Device device, int type, unsigned* mhz) {
  return nvmlDeviceGetClockInfo(device, type, mhz);
}

VGPU_API int nvmlDeviceGetPciInfo_v3(Device device, PciInfo* info) {
  if (!is_valid(device)) return kInvalidArgument;
  std::memset(info, 0, sizeof *info);
  info->bus = static_cast<unsigned>(streamguard::vgpu::physical_pci_bus(index_of(device)));
  std::snprintf(info->bus_id_legacy, sizeof info->bus_id_legacy, "0000:%02X:00.0", info->bus);
  std::snprintf(info->bus_id, sizeof info->bus_id, "00000000:%02X:00.0", info->bus);
  return kSuccess;
}

VGPU_API int nvmlDeviceGetCudaComputeCapability(Device device, int* major, int* minor) {
  if (!is_valid(device)) return kInvalidArgument;
  *major = streamguard::vgpu::kComputeMajor;
  *minor = streamguard::vgpu::kComputeMinor;
  return kSuccess;
}

VGPU_API int nvmlDeviceGetComputeRunningProcesses_v3(Device device, unsigned* count, void*) {
  if (!is_valid(device)) return kInvalidArgument;
  *count = 0;
  return kSuccess;
}

// Older names, same answer: the list is empty.
VGPU_API int nvmlDeviceGetComputeRunningProcesses_v2(Device device, unsigned* count, void* list) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}
VGPU_API int nvmlDeviceGetComputeRunningProcesses(Device device, unsigned* count, void* list) {
  return nvmlDeviceGetComputeRunningProcesses_v3(device, count, list);
}

// No links and no fabric: distributed libraries then choose the plain transports.
VGPU_API int nvmlDeviceGetNvLinkState(Device, unsigned, unsigned*) { return kNotSupported; }
VGPU_API int nvmlDeviceGetNvLinkRemoteDeviceType(Device, unsigned, int*) { return kNotSupported; }
VGPU_API int nvmlDeviceGetNvLinkRemotePciInfo_v2(Device, unsigned, PciInfo*) {
  return kNotSupported;
}
VGPU_API int nvmlDeviceGetGpuFabricInfoV(Device, void*) { return kNotSupported; }
VGPU_API int nvmlDeviceGetP2PStatus(Device first, Device second, int, int* status) {
  if (!is_valid(first) || !is_valid(second)) return kInvalidArgument;
  *status = 0;
  return kSuccess;
}
