// Operators through which the Python patches name a work of torch.distributed: torch itself takes
// the object apart, so that nothing depends on how its Python types are made.
#include <torch/library.h>

#include <torch/csrc/distributed/c10d/Work.hpp>

#include "hooks/detector.h"
#include "hooks/runtime_calls.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

using WorkPointer = c10::intrusive_ptr<c10d::Work>;

// HB-04: the host learned that the collective is complete.
void work_completed(const WorkPointer& work) {
  if (!Detector::get().is_active()) return;
  const core::HostThreadId thread = this_thread().id;
  const Detector::Access detector(Detector::get());
  for (const core::EventId event : detector->works.end_of(work.get())) {
    note_told_query(event.value);
    detector->engine.event_completed(thread, event);
  }
}

void work_ends_at_last_record(const WorkPointer& work) {
  if (!Detector::get().is_active()) return;
  const core::EventId event{this_thread().last_record};
  if (event.value == 0) return;
  Detector::Access(Detector::get())->works.note_end(work.get(), {event});
}

TORCH_LIBRARY_FRAGMENT(streamguard, library) {
  library.def("work_completed", &work_completed);
  library.def("work_ends_at_last_record", &work_ends_at_last_record);
}

}  // namespace
}  // namespace streamguard::hooks
