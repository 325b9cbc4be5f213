#include "profiler.h"

#include <dlfcn.h>
#include <strings.h>

#include <atomic>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

namespace streamguard::vgpu::nccl {
namespace {

using namespace nccl_profiler;

constexpr int kWarning = 2;  // ncclDebugLogLevel

// The one plugin of the process. It stays the same while a communicator uses it, so that reading
// needs no lock.
struct Plugin {
  std::mutex mutex;
  int users = 0;
  bool has_failed = false;
  void* library = nullptr;
  const PluginV4* v4 = nullptr;
  const PluginV5* v5 = nullptr;  // or later
};
Plugin& plugin() {
  static auto* const kPlugin = new Plugin;
  return *kPlugin;
}

std::atomic<int> event_mask{0};

void* open_library(const std::string& name) {
  const bool is_program = strcasecmp(name.c_str(), "STATIC_PLUGIN") == 0;
  return dlopen(is_program ? nullptr : name.c_str(), RTLD_NOW | RTLD_LOCAL);
}

bool is_library_name(const std::string& name) {
  if (name.find('/') != std::string::npos) return true;
  return name.size() > 3 && name.rfind("lib", 0) == 0 &&
         name.compare(name.size() - 3, 3, ".so") == 0;
}

void* find_library() {
  const char* value = std::getenv("NCCL_PROFILER_PLUGIN");
  const std::string name = value == nullptr ? "" : value;
  if (strcasecmp(name.c_str(), "none") == 0) return nullptr;
  if (name.empty()) return open_library("libnccl-profiler.so");
  if (void* library = open_library(name)) return library;
  return is_library_name(name) ? nullptr : open_library("libnccl-profiler-" + name + ".so");
}

bool load() {
  Plugin& one = plugin();
  const std::lock_guard<std::mutex> guard(one.mutex);
  if (one.has_failed) return false;
  if (one.users == 0) {
    one.library = find_library();
    one.v4 = nullptr;
    one.v5 = nullptr;
    if (one.library != nullptr) {
      for (const char* symbol : {"ncclProfiler_v6", "ncclProfiler_v5"}) {
        if (one.v5 == nullptr) one.v5 = static_cast<PluginV5*>(dlsym(one.library, symbol));
      }
      if (one.v5 == nullptr) {
        one.v4 = static_cast<PluginV4*>(dlsym(one.library, "ncclProfiler_v4"));
      }
    }
    if (one.v4 == nullptr && one.v5 == nullptr) {
      if (one.library != nullptr) dlclose(one.library);
      one.has_failed = true;
      return false;
    }
  }
  ++one.users;
  return true;
}

void unload() {
  Plugin& one = plugin();
  const std::lock_guard<std::mutex> guard(one.mutex);
  if (--one.users == 0) dlclose(one.library);
}

void log(int level, unsigned long, const char*, int, const char* format, ...) {
  const char* wanted = std::getenv("NCCL_DEBUG");
  if (wanted == nullptr) return;
  if (level > kWarning && strcasecmp(wanted, "INFO") != 0 && strcasecmp(wanted, "TRACE") != 0) {
    return;
  }
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  std::fprintf(stderr, "NCCL profiler plugin: %s\n", text);
}

// Version 4 has no events of calls, and the group is the parent of what is queued.
bool to_v4(const EventV5& event, EventV4* older) {
  *older = {};
  older->type = static_cast<uint8_t>(event.type);
  older->rank = event.rank;
  if (event.type == kCollective) {
    older->parent = event.collective.group;
    older->collective = event.collective.call;
  } else if (event.type == kMessage) {
    older->parent = event.message.group;
    older->message = event.message.call;
  } else {
    return event.type == kGroup;
  }
  return true;
}

}  // namespace

ProfilerContext::ProfilerContext(uint64_t communicator, const std::string& name, int ranks,
                                 int rank)
    : name_(name), is_loaded_(load()) {
  if (!is_loaded_) return;
  const char* text = name_.empty() ? nullptr : name_.c_str();
  int mask = event_mask;
  const Plugin& one = plugin();
  const Result result =
      one.v5 != nullptr ? one.v5->init(&context_, communicator, &mask, text, 1, ranks, rank, &log)
                        : one.v4->init(&context_, &mask, text, communicator, 1, ranks, rank, &log);
  event_mask = mask;
  is_active_ = result == kSuccess;
}

ProfilerContext::~ProfilerContext() {
  if (!is_loaded_) return;
  const Plugin& one = plugin();
  if (is_active_ && context_ != nullptr) {
    (one.v5 != nullptr ? one.v5->finalize : one.v4->finalize)(context_);
  }
  unload();
}

uint64_t ProfilerContext::next_sequence(const char* function) {
  const std::lock_guard<std::mutex> guard(mutex_);
  return sequences_[function]++;
}

uint64_t ProfilerContext::mask() { return static_cast<uint64_t>(event_mask.load()); }

void* ProfilerContext::start(EventV5 event) const {
  void* handle = nullptr;
  const Plugin& one = plugin();
  EventV4 older;
  if (one.v5 != nullptr) {
    one.v5->start(context_, &handle, &event);
  } else if (to_v4(event, &older)) {
    one.v4->start(context_, &handle, &older);
  }
  return handle;
}

void ProfilerContext::stop(void* handle) const {
  const Plugin& one = plugin();
  if (handle != nullptr) (one.v5 != nullptr ? one.v5->stop : one.v4->stop)(handle);
}

void ProfilerContext::record_state(void* handle, EventState state) const {
  const Plugin& one = plugin();
  if (handle != nullptr && one.v5 != nullptr) one.v5->record_state(handle, state, nullptr);
}

}  // namespace streamguard::vgpu::nccl
