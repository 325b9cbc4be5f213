// Whether the threads of this process, and its child processes, are at work.
#ifndef STREAMGUARD_VGPU_RUNTIME_THREAD_STATES_H_
#define STREAMGUARD_VGPU_RUNTIME_THREAD_STATES_H_

#include <set>

namespace streamguard::vgpu {

// True when no thread but the calling one and those in `waiting` (kernel ids) is running or waits
// for a disk.
bool all_threads_sleep(const std::set<int>& waiting);

// True when a child process, or a child of one, is at work: a compiler, a data loader.
bool has_busy_child();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_THREAD_STATES_H_
