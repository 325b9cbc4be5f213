#include "settings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <sstream>

namespace streamguard::vgpu {
namespace {

constexpr int kMaxDevices = 64;
constexpr size_t kDefaultMemoryMb = 16384;
constexpr long kDefaultDeadlockS = 60;

std::string text_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string() : std::string(value);
}

long number_of(const char* variable, long fallback) {
  const std::string text = text_of(variable);
  char* end = nullptr;
  const long value = std::strtol(text.c_str(), &end, 10);
  return text.empty() || *end != '\0' || value < 0 ? fallback : value;
}

std::string with_process_id(std::string path) {
  const size_t mark = path.find("%p");
  if (mark != std::string::npos) path.replace(mark, 2, std::to_string(getpid()));
  return path;
}

Settings read_settings() {
  Settings result;
  const long installed = number_of("STREAMGUARD_VGPU", 1);
  result.visible_devices =
      parse_visible_devices(std::getenv("CUDA_VISIBLE_DEVICES"),
                            static_cast<int>(installed < kMaxDevices ? installed : kMaxDevices));
  result.memory_bytes =
      static_cast<size_t>(number_of("STREAMGUARD_VGPU_MEMORY_MB", kDefaultMemoryMb)) << 20;
  result.schedule = text_of("STREAMGUARD_VGPU_SCHEDULE");
  if (result.schedule.empty()) result.schedule = "eager";
  result.deadlock_s = number_of("STREAMGUARD_VGPU_DEADLOCK_S", kDefaultDeadlockS);
  result.log_path = with_process_id(text_of("STREAMGUARD_VGPU_LOG"));
  return result;
}

}  // namespace

std::vector<int> parse_visible_devices(const char* visible, int installed) {
  std::vector<int> devices;
  if (visible == nullptr) {
    for (int device = 0; device < installed; ++device) devices.push_back(device);
    return devices;
  }
  std::istringstream entries(visible);
  std::string entry;
  while (std::getline(entries, entry, ',')) {
    char* end = nullptr;
    const long device = std::strtol(entry.c_str(), &end, 10);
    if (end == entry.c_str() || device < 0 || device >= installed) break;
    // CUDA shows no device at all to a program that names one twice; so does torch.
    if (std::find(devices.begin(), devices.end(), device) != devices.end()) return {};
    devices.push_back(static_cast<int>(device));
  }
  return devices;
}

const Settings& settings() {
  static const Settings* const kSettings = new Settings(read_settings());
  return *kSettings;
}

}  // namespace streamguard::vgpu
