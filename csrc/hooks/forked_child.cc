#include "hooks/forked_child.h"

#include <pthread.h>

#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/pinned_memory.h"
#include "hooks/runtime_calls.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

void lock_all() {
  Detector::get().stacks().lock_for_fork();
  opaque_kernels_mutex().lock();
  Detector::get().lock_for_fork();
}

void unlock_all() {
  Detector::get().unlock_after_fork();
  opaque_kernels_mutex().unlock();
  Detector::get().stacks().unlock_after_fork();
}

void start_child() {
  Detector::get().set_active(false);
  Enforcer::get().stop();
  Confirmer::get().stop_in_child();
  unlock_all();
}

}  // namespace

void follow_forks() { pthread_atfork(&lock_all, &unlock_all, &start_child); }

void begin_anew_in_child() {
  Detector& detector = Detector::get();
  detector.begin_anew();
  {
    const Detector::Access access(detector);
    PinnedMemory::get().clear();
  }
  forget_streams_of_this_thread();
  forget_this_thread();
}

}  // namespace streamguard::hooks
