// The optional call log: one line for each record, wait, synchronisation, query, copy, launch,
// host function and collective. It is the independent record tests compare the hooks with.
#ifndef STREAMGUARD_VGPU_RUNTIME_API_LOG_H_
#define STREAMGUARD_VGPU_RUNTIME_API_LOG_H_

namespace streamguard::vgpu {

// Cheap; ask before formatting arguments.
bool log_enabled();

// Writes one line; each reaches the file at once, so that a killed process loses none.
void log_line(const char* format, ...) __attribute__((format(printf, 1, 2)));

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_API_LOG_H_
