// Names by which the runtime, the driver and NVML know a device: they must agree.
#ifndef STREAMGUARD_VGPU_RUNTIME_DEVICE_IDENTITY_H_
#define STREAMGUARD_VGPU_RUNTIME_DEVICE_IDENTITY_H_

#include <cuda.h>

#include <cstring>

#include "settings.h"

namespace streamguard::vgpu {

constexpr const char* kDeviceName = "streamguard virtual GPU";
constexpr int kComputeMajor = 9;
constexpr int kComputeMinor = 0;
constexpr int kVirtualMemoryAttribute = CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED;

struct DeviceUuid {
  unsigned char bytes[16];
};

// By physical index, so that CUDA_VISIBLE_DEVICES does not change which device it is.
inline DeviceUuid physical_uuid(int physical) {
  DeviceUuid uuid;
  std::memcpy(uuid.bytes, "streamguardvgpu", 15);
  uuid.bytes[15] = static_cast<unsigned char>(physical);
  return uuid;
}
inline int physical_pci_bus(int physical) { return physical + 1; }

inline int physical_index(int device) {
  return settings().visible_devices[static_cast<size_t>(device)];
}
inline DeviceUuid uuid_of(int device) { return physical_uuid(physical_index(device)); }
inline int pci_bus_of(int device) { return physical_pci_bus(physical_index(device)); }

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_DEVICE_IDENTITY_H_
