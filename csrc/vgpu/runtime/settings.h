// What the environment says about the virtual GPU, read once per process.
#ifndef STREAMGUARD_VGPU_RUNTIME_SETTINGS_H_
#define STREAMGUARD_VGPU_RUNTIME_SETTINGS_H_

#include <cstddef>
#include <string>
#include <vector>

namespace streamguard::vgpu {

struct Settings {
  // Physical index of every visible device: STREAMGUARD_VGPU restricted by CUDA_VISIBLE_DEVICES.
  std::vector<int> visible_devices;
  size_t memory_bytes = 0;  // of each device
  std::string schedule;     // as given; parsed by make_policy()
  long deadlock_s = 0;      // without progress until a deadlock is reported; 0 for never
  std::string log_path;     // empty: no log; `%p` already replaced by the process id
};

// Devices that `visible` (the text of CUDA_VISIBLE_DEVICES) leaves of `installed` ones. As CUDA
// has it, the list ends at the first entry that names no device.
std::vector<int> parse_visible_devices(const char* visible, int installed);

const Settings& settings();

inline int device_count() { return static_cast<int>(settings().visible_devices.size()); }
inline bool is_device(int device) { return device >= 0 && device < device_count(); }

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_SETTINGS_H_
