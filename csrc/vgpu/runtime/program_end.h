// What becomes of queued work when the program ends.
#ifndef STREAMGUARD_VGPU_RUNTIME_PROGRAM_END_H_
#define STREAMGUARD_VGPU_RUNTIME_PROGRAM_END_H_

namespace streamguard::vgpu {

// A GPU has finished its queue by the time a program's libraries are torn down, or loses it with
// the process. Under lazy schedules work would still be queued then, and torch's watchdog, which
// looks at unfinished collectives, would run into destroyed objects.
//
// Runs everything that can run. What waits for peers that have ended is lost without an error;
// so is what has not moved for `patience_ms`. Answers how many ops were lost. If any, events and
// streams count as done from here on, and what needs the lost results answers
// cudaErrorCudartUnloading.
//
// Thread safety: once, from the thread that ends the program, without a lock or the GIL.
unsigned long long finish_queued_work(long patience_ms);

// finish_queued_work has begun.
bool is_ending();
// It gave up: nothing runs any more.
bool has_abandoned_work();

}  // namespace streamguard::vgpu

#endif  // STREAMGUARD_VGPU_RUNTIME_PROGRAM_END_H_
