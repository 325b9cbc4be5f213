// How an interposed function reaches the one behind it. The C library only.
#pragma once

#include <dlfcn.h>

#include <atomic>
#include <initializer_list>

namespace streamguard::interposer {

/// The next definition in the global scope, else that of a library which is loaded already: it, or
/// what links it, made the call.
inline void* find_next(const char* name, std::initializer_list<const char*> sonames) {
  if (void* found = dlsym(RTLD_NEXT, name)) return found;
  for (const char* soname : sonames) {
    void* library = dlopen(soname, RTLD_LAZY | RTLD_NOLOAD);
    if (library == nullptr) continue;
    if (void* found = dlsym(library, name)) return found;
  }
  return nullptr;
}

/// Calls the definition behind ours; `depth` is above 0 meanwhile on this thread.
template <class... Arguments>
class Next {
 public:
  constexpr Next(const char* name, void* (*find)(const char*), int not_found)
      : name_(name), find_(find), not_found_(not_found) {}

  int operator()(int& depth, Arguments... arguments) {
    void* function = function_.load(std::memory_order_acquire);
    if (function == nullptr) {
      function = find_(name_);
      if (function == nullptr) return not_found_;
      function_.store(function, std::memory_order_release);
    }
    ++depth;
    const int status = reinterpret_cast<int (*)(Arguments...)>(function)(arguments...);
    --depth;
    return status;
  }

 private:
  const char* name_;
  void* (*find_)(const char*);
  int not_found_;
  std::atomic<void*> function_{nullptr};
};

}  // namespace streamguard::interposer
