// What a profiler plugin hears of the calls between group start and end.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILED_CALLS_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILED_CALLS_H_

#include <memory>
#include <vector>

#include "operation.h"
#include "profiler.h"

namespace streamguard::vgpu::nccl {

// Events that hold for all calls of a thread's group, on whatever communicator.
class ProfiledGroup {
 public:
  // A call was made; `depth` counts the call itself as a group.
  void begin(const std::shared_ptr<ProfilerContext>& context, int depth, bool is_captured);
  void end_called();
  void end();

  void* handle() const { return handle_; }
  uint64_t mask() const { return mask_; }

 private:
  std::shared_ptr<ProfilerContext> context_;
  void* handle_ = nullptr;
  uint64_t mask_ = 0;
  bool has_begun_ = false;
};

// Events of one communicator's calls in a group.
class ProfiledCalls {
 public:
  // Tells of the call itself. NCCL tells of none that it does without a kernel of its own: those
  // of no elements, and collectives of one rank.
  void add(Communicator& communicator, const Call& call, cudaStream_t stream, int depth,
           ProfiledGroup& group);

  // Around the launch.
  void launch_began(cudaStream_t stream);
  void launch_ended();
  // Tells what the launch consisted of; nothing for a launch that was only captured.
  void launched();

 private:
  void add_message(const Call& call, Kind kind, size_t skip_parts, int peer,
                   const Communicator& communicator, cudaStream_t stream, ProfiledGroup& group);
  void add_collective(const Call& call, const Communicator& communicator, cudaStream_t stream,
                      ProfiledGroup& group);

  std::shared_ptr<ProfilerContext> context_;
  uint64_t mask_ = 0;
  void* group_ = nullptr;
  void* launch_ = nullptr;
  bool is_captured_ = false;
  std::vector<nccl_profiler::EventV5> collectives_;
  std::vector<nccl_profiler::EventV5> messages_;
};

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_PROFILED_CALLS_H_
