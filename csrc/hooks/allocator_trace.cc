#include "hooks/allocator_trace.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>

#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/op_scope.h"
#include "hooks/thread_state.h"

namespace streamguard::hooks {
namespace {

using TraceEntry = c10::cuda::CUDACachingAllocator::TraceEntry;

std::atomic<bool> is_attached{false};

core::AllocationId note_allocation(detection::DetectorState& state, core::HostThreadId thread,
                                   core::ByteRange bytes, const TraceEntry& entry) {
  // No CUDA call is allowed here, so a stream's flags cannot be queried: a stream that has not run
  // anything yet owns no block as far as the engine knows.
  const auto handle = reinterpret_cast<uint64_t>(entry.stream_);
  const int device = entry.device_;
  core::StreamId owner = core::kNoStream;
  if (handle == 0) {
    owner = state.streams.find_or_add(device, handle, core::StreamKind::kLegacy);
  } else if (const auto known = state.streams.find(device, handle)) {
    owner = *known;
  }
  // The bytes stay the graph's own, also when the program lets go of them: each replay writes there
  // again. A later block of a capture takes their place in the engine.
  if (owner != core::kNoStream && state.engine.is_capturing(owner)) {
    state.graph_blocks.insert(bytes.begin);
  }
  return state.engine.allocate(thread, bytes, core::MemoryKind::kDevice, owner);
}

// A block that an op takes while it runs is written by its kernel before anybody can ask. Other
// blocks are asked about when they are first used: then it is known by which stream.
void order_reuse(const ThreadState& thread, core::AllocationId block, core::ByteRange bytes,
                 const TraceEntry& entry) {
  Enforcer& enforcer = Enforcer::get();
  Confirmer& confirmer = Confirmer::get();
  const bool is_active = enforcer.is_active() || confirmer.is_active();
  if (!is_active || thread.scope == nullptr) return;
  const core::StreamId stream = stream_of(entry.device_, reinterpret_cast<uint64_t>(entry.stream_));
  const core::OpInfo info = thread.scope->info();
  if (enforcer.is_active()) enforcer.order_new_block(thread, stream, block, bytes, info);
  if (confirmer.is_active()) confirmer.before_new_block(thread, stream, block, bytes, info);
}

// SG101. Called before the block is freed; it is told of only if the free completes at once, since
// otherwise the allocator waits for the streams.
void note_unordered(detection::DetectorState& state, ThreadState& thread, core::AllocationId block,
                    core::ByteRange bytes, const TraceEntry& entry) {
  const auto owner = state.streams.find(entry.device_, reinterpret_cast<uint64_t>(entry.stream_));
  if (!owner) return;
  thread.owner_at_free = *owner;
  const core::Access reuse{core::Region::of_range(bytes), core::AccessKind::kWrite};
  const core::OpInfo info{state.free_label, core::SiteId{0}};
  for (const core::Race& race : state.engine.foresee_launch(thread.id, *owner, {&reuse, 1}, info)) {
    if (race.first.allocation == block) thread.unordered_at_free.push_back(race.first);
  }
}

void tell_early_free(detection::DetectorState& state, ThreadState& thread) {
  for (const core::AccessRecord& access : thread.unordered_at_free) {
    state.early_frees.add(access, thread.owner_at_free, state.step);
  }
  thread.unordered_at_free.clear();
}

void note_free(detection::DetectorState& state, ThreadState& thread, core::ByteRange bytes,
               const TraceEntry& entry) {
  state.end_watches(bytes);
  thread.unordered_at_free.clear();
  const core::AllocationId block = state.engine.allocation_at(bytes.begin);
  if (block == core::kNoAllocation || !state.engine.is_live(block)) return;
  note_unordered(state, thread, block, bytes, entry);
  state.engine.free(thread.id, block, {state.free_label, core::SiteId{0}});
  if (state.works.take_kept_until_end(block)) {
    thread.unordered_at_free.clear();
    state.engine.forget(bytes);
  }
}

// Called with the allocator's lock held: no c10 or Python call in here, and of CUDA's only those
// that neither wait nor allocate (events, flags of a stream, copies), when waits are enforced or
// races tried.
void on_entry(const TraceEntry& entry) {
  Detector& detector = Detector::get();
  if (!detector.is_active()) return;
  ThreadState& thread = this_thread();
  // A free that completes at once is traced twice with nothing between. Anything else completed
  // because the allocator saw the events of all streams it had been told of, some of them by calls
  // that nobody else sees (autograd, sends and receives).
  const bool is_completed_at_once = thread.freed_just_now == entry.addr_;
  thread.freed_just_now = 0;
  const core::ByteRange bytes{entry.addr_, entry.addr_ + entry.size_};
  if (entry.action_ == TraceEntry::ALLOC) {
    const core::AllocationId block =
        note_allocation(*Detector::Access(detector), thread.id, bytes, entry);
    order_reuse(thread, block, bytes, entry);
    return;
  }
  // Most frees: nothing is left to tell, so that the lock is taken once a block.
  if (entry.action_ == TraceEntry::FREE_COMPLETED && is_completed_at_once && thread.is_free_told) {
    return;
  }
  const Detector::Access state(detector);
  switch (entry.action_) {
    case TraceEntry::FREE_REQUESTED: {
      if (thread.scope != nullptr) thread.scope->leave_out(bytes);
      const bool is_graph_block = state->graph_blocks.contains(bytes.begin);
      if (!is_graph_block) note_free(*state, thread, bytes, entry);
      thread.is_free_told = !is_graph_block && thread.unordered_at_free.empty();
      thread.freed_just_now = entry.addr_;
      break;
    }
    case TraceEntry::FREE_COMPLETED:
      if (state->graph_blocks.erase(bytes.begin) != 0) break;
      if (is_completed_at_once) {
        tell_early_free(*state, thread);
      } else {
        state->engine.forget(bytes);
      }
      break;
    case TraceEntry::SEGMENT_FREE:
    case TraceEntry::SEGMENT_UNMAP:
      // The driver waits for the whole device before it takes memory back.
      state->engine.forget(bytes);
      state->forget_names(bytes);
      break;
    case TraceEntry::ALLOC:
    case TraceEntry::SEGMENT_ALLOC:
    case TraceEntry::SEGMENT_MAP:
    case TraceEntry::SNAPSHOT:
    case TraceEntry::OOM:
    case TraceEntry::ANNOTATE:
      break;
  }
}

}  // namespace

void attach_allocator_trace() {
  if (is_attached.exchange(true)) return;
  c10::cuda::CUDACachingAllocator::attachAllocatorTraceTracker(&on_entry);
}

bool is_allocator_traced() { return is_attached.load(); }

}  // namespace streamguard::hooks
