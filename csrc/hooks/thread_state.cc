#include "hooks/thread_state.h"

#include <memory>

#include "hooks/detector.h"

namespace streamguard::hooks {
namespace {

// Trivially destructible on purpose: see the invariant of ThreadState.
thread_local ThreadState* state_of_this_thread = nullptr;

}  // namespace

ThreadState& this_thread() {
  if (state_of_this_thread == nullptr) {
    ThreadState* state = std::make_unique<ThreadState>().release();
    state->id = Detector::Access(Detector::get())->engine.add_host_thread();
    state_of_this_thread = state;
  }
  return *state_of_this_thread;
}

void forget_this_thread() { state_of_this_thread = nullptr; }

}  // namespace streamguard::hooks
