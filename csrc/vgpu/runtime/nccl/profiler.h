// NCCL's profiler plugins: found, loaded and called as NCCL 2.30 does it.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILER_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILER_H_

#include <map>
#include <mutex>
#include <string>

#include "../../../nccl_profiler/profiler_abi.h"

namespace streamguard::vgpu::nccl {

// What a plugin keeps for one rank of a communicator. Loads the plugin of NCCL_PROFILER_PLUGIN
// with the first one in the process and unloads it with the last.
//
// Thread safety: any thread; the plugin is called without a lock held.
class ProfilerContext {
 public:
  ProfilerContext(uint64_t communicator, const std::string& name, int ranks, int rank);
  ~ProfilerContext();
  ProfilerContext(const ProfilerContext&) = delete;
  ProfilerContext& operator=(const ProfilerContext&) = delete;

  bool is_active() const { return is_active_; }
  // Events that the plugin asked for last; one mask for all communicators, as in NCCL.
  static uint64_t mask();

  // Number of a queued collective among those of its function, from 0.
  uint64_t next_sequence(const char* function);

  void* start(nccl_profiler::EventV5 event) const;
  void stop(void* handle) const;
  void record_state(void* handle, nccl_profiler::EventState state) const;

 private:
  const std::string name_;
  bool is_loaded_ = false;
  bool is_active_ = false;
  void* context_ = nullptr;
  std::mutex mutex_;
  std::map<std::string, uint64_t> sequences_;
};

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILER_H_
