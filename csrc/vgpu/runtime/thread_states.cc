#include "thread_states.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

namespace streamguard::vgpu {
namespace {

constexpr int kGenerations = 4;  // of child processes that are looked at

std::string read_text(const std::string& path) {
  const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  char text[1024];
  const ssize_t length = read(file, text, sizeof text - 1);
  close(file);
  return length <= 0 ? std::string() : std::string(text, static_cast<size_t>(length));
}

// From /proc/self/task/ID/stat or /proc/ID/stat: "ID (name) S ...".
char state_of(const std::string& directory) {
  const std::string text = read_text(directory + "/stat");
  const size_t name_end = text.rfind(')');
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'X' : text[name_end + 2];
}

bool is_at_work(char state) { return state == 'R' || state == 'D'; }

std::vector<std::string> thread_ids(const std::string& process) {
  std::vector<std::string> ids;
  DIR* tasks = opendir((process + "/task").c_str());
  if (tasks == nullptr) return ids;
  while (const dirent* entry = readdir(tasks)) {
    if (std::atoi(entry->d_name) != 0) ids.emplace_back(entry->d_name);
  }
  closedir(tasks);
  return ids;
}

bool has_busy_child_of(const std::string& process, int generations) {
  if (generations == 0) return false;
  for (const std::string& id : thread_ids(process)) {
    std::istringstream children(read_text(process + "/task/" + id + "/children"));
    std::string child;
    while (children >> child) {
      const std::string directory = "/proc/" + child;
      for (const std::string& thread : thread_ids(directory)) {
        if (is_at_work(state_of(directory + "/task/" + thread))) return true;
      }
      if (has_busy_child_of(directory, generations - 1)) return true;
    }
  }
  return false;
}

}  // namespace

bool all_threads_sleep(const std::set<int>& waiting) {
  const int own = static_cast<int>(syscall(SYS_gettid));
  for (const std::string& id : thread_ids("/proc/self")) {
    const int number = std::atoi(id.c_str());
    if (number == own || waiting.count(number) != 0) continue;
    if (is_at_work(state_of("/proc/self/task/" + id))) return false;
  }
  return true;
}

bool has_busy_child() { return has_busy_child_of("/proc/self", kGenerations); }

}  // namespace streamguard::vgpu
