// The engine with a recorder behind it.
#ifndef STREAMGUARD_TRACE_RECORDED_ENGINE_H_
#define STREAMGUARD_TRACE_RECORDED_ENGINE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "core/engine.h"
#include "trace/recorder.h"

namespace streamguard::trace {

// Every call that changes the engine goes through here, so that a trace holds exactly the calls
// that were made, with the ids they returned; calls that only ask are not recorded.
//
// Thread safety: none, as the engine.
// Cost: one branch a call while nothing records.
class RecordedEngine {
 public:
  explicit RecordedEngine(core::EngineOptions options = {}) : engine_(options) {}

  // Rows are added to `recorder` from now on; null: no longer. A trace can only be replayed when it
  // began before the first call.
  void record_to(Recorder* recorder) { recorder_ = recorder; }
  Recorder* recorder() const { return recorder_; }
  const core::Engine& engine() const { return engine_; }

  // `handle` is the caller's key of the stream; the engine does not need it.
  core::StreamId add_stream(core::DeviceId device, core::StreamKind kind, std::uint64_t handle);
  core::HostThreadId add_host_thread();

  core::AllocationId allocate(core::HostThreadId thread, core::ByteRange range,
                              core::MemoryKind kind, core::StreamId owner);
  core::AllocationId allocation_at(core::Address address) const {
    return engine_.allocation_at(address);
  }
  bool is_live(core::AllocationId allocation) const { return engine_.is_live(allocation); }
  void record_stream(core::AllocationId allocation, core::StreamId stream);
  core::OpId free(core::HostThreadId thread, core::AllocationId allocation, core::OpInfo info);
  core::OpId free_synchronously(core::HostThreadId thread, core::AllocationId allocation,
                                core::OpInfo info);
  void forget(core::ByteRange range);

  core::OpId launch(core::HostThreadId thread, core::StreamId stream, core::AccessSpan accesses,
                    core::OpInfo info) {
    const core::OpId op = engine_.launch(thread, stream, accesses, info);
    if (recorder_ != nullptr) add_op(Verb::kLaunch, thread, stream, accesses, info, op);
    return op;
  }
  core::OpId collective(core::HostThreadId thread, core::StreamId stream,
                        core::CommunicatorId communicator, core::AccessSpan accesses,
                        core::OpInfo info);
  // Questions: what they teach a stream its next op teaches it anyway, so no trace needs them.
  std::vector<core::Race> foresee_launch(core::HostThreadId thread, core::StreamId stream,
                                         core::AccessSpan accesses, core::OpInfo info) {
    return engine_.foresee_launch(thread, stream, accesses, info);
  }
  std::vector<core::Race> foresee_collective(core::HostThreadId thread, core::StreamId stream,
                                             core::CommunicatorId communicator,
                                             core::AccessSpan accesses, core::OpInfo info) {
    return engine_.foresee_collective(thread, stream, communicator, accesses, info);
  }
  std::vector<core::Race> foresee_graph(core::HostThreadId thread, core::GraphId graph,
                                        core::StreamId stream) {
    return engine_.foresee_graph(thread, graph, stream);
  }
  std::vector<core::Race> foresee_host_access(core::HostThreadId thread, core::AccessSpan accesses,
                                              core::OpInfo info) {
    return engine_.foresee_host_access(thread, accesses, info);
  }
  core::OpId host_access(core::HostThreadId thread, core::AccessSpan accesses, core::OpInfo info);
  core::OpId copy(core::HostThreadId thread, core::StreamId stream, core::AccessSpan accesses,
                  core::CopyMode mode, core::OpInfo info);
  core::OpId memset(core::HostThreadId thread, core::StreamId stream, core::AccessSpan accesses,
                    core::CopyMode mode, core::OpInfo info);

  void record_event(core::HostThreadId thread, core::EventId event, core::StreamId stream);
  core::WaitOutcome wait_event(core::HostThreadId thread, core::StreamId stream,
                               core::EventId event);
  void sync_stream(core::HostThreadId thread, core::StreamId stream);
  core::WaitOutcome sync_event(core::HostThreadId thread, core::EventId event);
  void sync_device(core::HostThreadId thread, core::DeviceId device);
  core::WaitOutcome event_completed(core::HostThreadId thread, core::EventId event);
  void stream_completed(core::HostThreadId thread, core::StreamId stream);
  void destroy_event(core::EventId event);
  void post(core::HostThreadId thread, core::MessageId message);
  void take(core::HostThreadId thread, core::MessageId message);

  void begin_capture(core::StreamId origin);
  std::optional<core::GraphId> end_capture(core::StreamId origin);
  bool is_capturing(core::StreamId stream) const { return engine_.is_capturing(stream); }
  core::OpId launch_graph(core::HostThreadId thread, core::GraphId graph, core::StreamId stream);
  void destroy_graph(core::GraphId graph);
  core::GraphSize size_of(core::GraphId graph) const { return engine_.size_of(graph); }

  core::OpId current_op() const { return engine_.current_op(); }
  bool has_races() const { return engine_.has_races(); }
  std::vector<core::Race> take_races() { return engine_.take_races(); }
  std::vector<core::Race> take_ordered_by_nccl() { return engine_.take_ordered_by_nccl(); }
  // What is watched changes no finding: whoever gives the bytes their name records it.
  void watch(core::ByteRange range) { engine_.watch(range); }
  void unwatch(core::ByteRange range) { engine_.unwatch(range); }
  std::vector<core::WatchedAccess> take_watched() { return engine_.take_watched(); }
  std::vector<core::Epoch> clock_of(core::StreamId stream) const {
    return engine_.clock_of(stream);
  }
  std::vector<core::Epoch> clock_of(core::HostThreadId thread) const {
    return engine_.clock_of(thread);
  }
  core::LaneId lane_of(core::StreamId stream) const { return engine_.lane_of(stream); }
  core::LaneId lane_of(core::HostThreadId thread) const { return engine_.lane_of(thread); }
  core::EngineCounts counts() const { return engine_.counts(); }

 private:
  void add_op(Verb verb, core::HostThreadId thread, core::StreamId stream,
              core::AccessSpan accesses, core::OpInfo info, core::OpId op, Kind kind = Kind::kNone,
              std::uint64_t id = 0);
  void add_free(Verb verb, core::HostThreadId thread, core::AllocationId allocation,
                core::OpInfo info, core::OpId op);
  // Without a recorder these do nothing.
  void add_order(Verb verb, core::HostThreadId thread, core::StreamId stream, std::uint64_t id);

  core::Engine engine_;
  Recorder* recorder_ = nullptr;
  std::uint32_t stream_count_ = 0;
};

}  // namespace streamguard::trace

#endif  // STREAMGUARD_TRACE_RECORDED_ENGINE_H_
