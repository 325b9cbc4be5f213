#include "api_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "settings.h"

namespace streamguard::vgpu {
namespace {

constexpr int kMaxLine = 512;

int open_log() {
  const std::string& path = settings().log_path;
  if (path.empty()) return -1;
  if (path == "-") return STDERR_FILENO;
  const int file = open(path.c_str(), O_CREAT | O_WRONLY | O_APPEND | O_CLOEXEC, 0600);
  if (file < 0) {
    std::fprintf(stderr,
                 "streamguard: STREAMGUARD_VGPU_LOG: cannot write %s: %s; no call is logged\n",
                 path.c_str(), std::strerror(errno));
  }
  return file;
}

int log_file() {
  static const int kFile = open_log();
  return kFile;
}

}  // namespace

bool log_enabled() { return log_file() >= 0; }

void log_line(const char* format, ...) {
  if (!log_enabled()) return;
  char line[kMaxLine];
  va_list arguments;
  va_start(arguments, format);
  int length = std::vsnprintf(line, sizeof line - 1, format, arguments);
  va_end(arguments);
  if (length < 0) return;
  if (length > kMaxLine - 2) length = kMaxLine - 2;
  line[length] = '\n';
  // One write per line: lines of several threads do not mix.
  [[maybe_unused]] const ssize_t written = write(log_file(), line, static_cast<size_t>(length) + 1);
}

}  // namespace streamguard::vgpu
