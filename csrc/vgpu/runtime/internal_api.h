// What the other replacement libraries, the value kernels and tests use of the runtime, as C
// functions: each library is loaded on its own.
#ifndef STREAMGUARD_VGPU_RUNTIME_INTERNAL_API_H_
#define STREAMGUARD_VGPU_RUNTIME_INTERNAL_API_H_

#include <cuda_runtime_api.h>

extern "C" {

// Thread-local counter: while positive, device-to-device copies and fills issued by this thread
// are empty ops.
int* streamguard_vgpu_suppress_copies();
unsigned long long streamguard_vgpu_launch_count();
// Ops issued and not executed yet.
int streamguard_vgpu_pending();
int streamguard_vgpu_device_count();
// The token that repeats this process's schedule.
const char* streamguard_vgpu_schedule();
// Runs everything, then starts the schedule `token`: ops and streams are numbered anew, freed
// memory is forgotten. cudaErrorInvalidValue: no such schedule; cudaErrorNotReady: work remains.
cudaError_t streamguard_vgpu_start_schedule(const char* token);
// The program ends: see program_end.h. Answers how many ops are lost.
unsigned long long streamguard_vgpu_finish(long patience_ms);
int streamguard_vgpu_is_ending();
// Streams used under the schedule so far.
int streamguard_vgpu_stream_count();
// Writes the pattern of freed memory over bytes of device memory that nobody uses.
void streamguard_vgpu_refill(void* begin, size_t bytes);
// Delays a stream, as a long kernel there would, until it is released: its ops then run only for a
// host wait, another stream that waits for them, or a peer. The release first runs what was issued
// to `first` (may be null), as far as that waits for no other process.
cudaError_t streamguard_vgpu_hold_stream(cudaStream_t stream);
cudaError_t streamguard_vgpu_release_stream(cudaStream_t stream, const cudaStream_t* first);
// Times work was run because the process slept, not because it was waited for. With rescues a run
// cannot be repeated from its token.
unsigned long long streamguard_vgpu_rescues();

// A step of another library (a collective's start or end). `run` answers 0 done, 1 waiting,
// 2 stalled; it may run several times, in graphs also after it answered done. `demand` answers as
// Demand in work.h.
struct streamguard_vgpu_step {
  int (*run)(void* context);
  int (*demand)(void* context);
  void (*release)(void* context);
  void* context;
};
// An order that holds across streams: each op issued through it comes after the one before.
typedef struct streamguard_vgpu_chain streamguard_vgpu_chain;
streamguard_vgpu_chain* streamguard_vgpu_chain_create();
void streamguard_vgpu_chain_destroy(streamguard_vgpu_chain* chain);
// Waits on the host for the chain's ops.
cudaError_t streamguard_vgpu_chain_drain(streamguard_vgpu_chain* chain);

// Takes over one reference to step->context, also on failure.
cudaError_t streamguard_vgpu_issue_step(cudaStream_t stream, const streamguard_vgpu_step* step,
                                        streamguard_vgpu_chain* chain, const char* label);
// `waiting` goes on after everything issued to `other`.
cudaError_t streamguard_vgpu_join(cudaStream_t waiting, cudaStream_t other);

// See PeerMonitor in fairness.h.
struct streamguard_vgpu_peer_monitor {
  void* context;
  int (*has_unmet_demand)(void* context);
  void (*publish_idleness)(void* context, int idleness);
  int (*end_if_deadlocked)(void* context, long deadlock_s);
};
void streamguard_vgpu_add_peer_monitor(const streamguard_vgpu_peer_monitor* monitor);
void streamguard_vgpu_remove_peer_monitor(void* context);
// Every later call answers `error`: the device can do no more.
void streamguard_vgpu_set_sticky_error(cudaError_t error);
void streamguard_vgpu_log(const char* line);

// `kernel` is a handle of streamguard_vgpu_kernel; `arguments` may be null.
cudaError_t streamguard_vgpu_launch(const void* kernel, dim3 grid, dim3 block, void** arguments,
                                    cudaStream_t stream);
// Computes on the host what a kernel would: grid and block have three elements, `arguments` points
// to a copy of each argument.
typedef void (*streamguard_vgpu_kernel_twin)(void* context, const unsigned* grid,
                                             const unsigned* block, void** arguments);
// Replaces the twin of a kernel, or removes it (null). By mangled or by plain C++ name.
void streamguard_vgpu_set_kernel_twin(const char* symbol, streamguard_vgpu_kernel_twin function,
                                      void* context, const size_t* argument_bytes, int arguments);
// Whether ops have values in this process: kernels without a twin are then told of, once by name.
void streamguard_vgpu_set_values_computed(int are_computed);
cudaError_t streamguard_vgpu_fill(void* target, unsigned value, int element_bytes, size_t elements,
                                  cudaStream_t stream);
// Kernel handle for a name, alive for ever.
void* streamguard_vgpu_kernel(const char* name);
const char* streamguard_vgpu_kernel_name(const void* kernel);

// Device memory the driver maps by itself.
int streamguard_vgpu_reserve_budget(int device, size_t bytes);
void streamguard_vgpu_return_budget(int device, size_t bytes);
void streamguard_vgpu_add_memory(void* begin, size_t bytes, int device);
void streamguard_vgpu_remove_memory(void* begin);
// Begin and size of the allocation that holds `pointer`; 0 when there is none.
int streamguard_vgpu_find_memory(const void* pointer, void** begin, size_t* bytes);
void streamguard_vgpu_log_unsupported(const char* function);
}

#endif  // STREAMGUARD_VGPU_RUNTIME_INTERNAL_API_H_
