// Moves work that no host wait forces, when nothing else would.
#ifndef STREAMGUARD_VGPU_RUNTIME_FAIRNESS_H_
#define STREAMGUARD_VGPU_RUNTIME_FAIRNESS_H_

#include <cstdint>

namespace streamguard::vgpu {

// A GPU runs what is queued whether or not a host waits; lazy schedules do not, so two processes
// could wait for each other's queued collectives. A background thread runs
//  1. steps that a peer waits for, once every thread of this process sleeps, and
//  2. everything, once the process has slept or made no call for seconds.
// A process that only computes or waits for CPU time is not asleep, so a loaded machine does not
// change the order. Such rescues are counted: a run with rescues of kind 2 is not reproducible.
//
// Thread safety: all functions from any thread.
void start_fairness_worker();

// A communicator's view for the worker. `has_unmet_demand`: a peer waits for something this
// process has not started. `publish_idleness`: tells peers what this process does.
// `end_if_deadlocked`: fails the communicator when this rank waits for ranks that are all stuck.
struct PeerMonitor {
  void* context;
  int (*has_unmet_demand)(void* context);
  void (*publish_idleness)(void* context, int idleness);
  int (*end_if_deadlocked)(void* context, long deadlock_s);
};
void add_peer_monitor(const PeerMonitor& monitor);
void remove_peer_monitor(void* context);

// Times the worker ran everything (kind 2).
uint64_t timed_rescues();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_FAIRNESS_H_
