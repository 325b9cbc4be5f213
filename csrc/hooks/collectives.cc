#include <cuda_runtime_api.h>

#include <algorithm>
#include <string_view>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <utility>

#include "hooks/confirmer.h"
#include "hooks/current_stream.h"
#include "hooks/detector.h"
#include "hooks/enforcer.h"
#include "hooks/kernel_observers.h"
#include "hooks/op_scope.h"
#include "hooks/own_calls.h"

namespace streamguard::hooks {
namespace {

enum class TensorUse : uint8_t {
  kNone,
  kRead,
  kWrite,
  kWriteOnRoot,  // the others are read
  kReadOnRoot,   // the others are written
};

/// c10d's schemas carry no alias information, so who reads and writes is written down here.
struct CollectiveRule {
  std::string_view name;
  TensorUse first;   // argument 0
  TensorUse second;  // argument 1, where that holds tensors
};

constexpr CollectiveRule kRules[] = {
    {"c10d::allreduce_", TensorUse::kWrite, TensorUse::kNone},
    {"c10d::allreduce_coalesced_", TensorUse::kWrite, TensorUse::kNone},
    {"c10d::broadcast_", TensorUse::kReadOnRoot, TensorUse::kNone},
    {"c10d::reduce_", TensorUse::kWriteOnRoot, TensorUse::kNone},
    {"c10d::allgather_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::_allgather_base_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::allgather_coalesced_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::allgather_into_tensor_coalesced_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::reduce_scatter_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::_reduce_scatter_base_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::reduce_scatter_tensor_coalesced_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::alltoall_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::alltoall_base_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::gather_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::gather_into_tensor_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::scatter_", TensorUse::kWrite, TensorUse::kRead},
    {"c10d::send", TensorUse::kRead, TensorUse::kNone},
    {"c10d::recv_", TensorUse::kWrite, TensorUse::kNone},
    {"c10d::recv_any_source_", TensorUse::kWrite, TensorUse::kNone},
    // The tensor of `barrier` only picks the backend, and the buffer it reduces is NCCL's own.
    {"c10d::barrier", TensorUse::kNone, TensorUse::kNone},
};

const CollectiveRule* rule_of(std::string_view name) {
  const auto found = std::find_if(std::begin(kRules), std::end(kRules),
                                  [&](const CollectiveRule& rule) { return rule.name == name; });
  return found == std::end(kRules) ? nullptr : found;
}

struct Group {
  core::CommunicatorId communicator = core::kNoCommunicator;
  int rank = 0;
  std::string name;
};

/// Where a collective runs is found out by watching it. An asynchronous one records an event on the
/// current stream, makes the communication stream wait for it, launches there, and records its end
/// event there. A synchronous one launches on the current stream and records its end event there.
/// So a record on the current stream is held back until it is clear which of the two it was.
class CollectiveScope final : public OpScope {
 public:
  CollectiveScope(ThreadState& thread, core::LabelId label, std::string op, Group group,
                  c10::DeviceIndex device)
      : OpScope(thread, label),
        op_(std::move(op)),
        group_(std::move(group)),
        current_stream_(current_stream(device)) {}

  ~CollectiveScope() override { release_records(); }

  bool on_record(core::EventId event, core::StreamId stream) override {
    if (is_on_communication_stream_ && stream == communication_stream_) {
      if (!is_placed()) {
        place();
        record_again_behind_copies(event, stream);
      }
      end_events_.push_back(event);
      return false;
    }
    if (is_placed() || is_on_communication_stream_ || stream != current_stream_) return false;
    held_records_.push_back(event);
    return true;
  }

  void on_wait(core::EventId event, core::StreamId stream) override {
    if (is_placed() || is_on_communication_stream_) return;
    const bool is_ready_event =
        std::find(held_records_.begin(), held_records_.end(), event) != held_records_.end();
    if (!is_ready_event) return;
    release_records();
    is_on_communication_stream_ = true;
    communication_stream_ = stream;
  }

  /// A synchronous collective runs on the current stream and waits for nothing else.
  void order_on_current_stream() { order(current_stream_); }

  // An asynchronous one is known to be ordered after the current stream from here on.
  void after_wait(core::StreamId stream) override {
    if (is_placed() || !is_on_communication_stream_ || stream != communication_stream_) return;
    order(stream);
  }

  /// `work` is what the call returned, or null.
  void finish_collective(const c10d::Work* work) {
    if (!is_placed()) place();
    note_end_of(work);
    release_records();
    // Sends and receives keep nothing: they tell the allocator which stream they use.
    const bool keeps_blocks = group_.communicator != core::kNoCommunicator;
    if (is_on_communication_stream_ && keeps_blocks && !is_captured_) {
      Detector::Access(Detector::get())->works.add(blocks_, end_events_);
    }
    finish();
  }

 protected:
  void place() override {
    place_on(is_on_communication_stream_ ? communication_stream_ : current_stream_);
  }

  core::OpId issue(detection::DetectorState& detector, core::StreamId stream,
                   const std::vector<core::Access>& accesses) override {
    if (is_on_communication_stream_) {
      detector.streams.set_role_if_unnamed(stream, "NCCL stream of group " + group_.name);
      for (const core::Access& access : accesses) {
        const core::AllocationId block = detector.engine.allocation_at(access.region.begin);
        if (block != core::kNoAllocation) blocks_.push_back(block);
      }
    }
    detection::Label label = whole_label();
    is_captured_ = detector.engine.is_capturing(stream);
    if (is_captured_) label = label.in_graph();
    ++detector.counters.collectives;
    return detector.engine.collective(thread_.id, stream, group_.communicator, accesses,
                                      {detector.labels.intern(label), site_});
  }

 private:
  void note_end_of(const c10d::Work* work) {
    if (work == nullptr) return;
    // A synchronous one has recorded its end on the current stream, and nothing waited for it.
    const auto ended = is_on_communication_stream_
                           ? end_events_
                           : std::vector<core::EventId>(held_records_.begin(), held_records_.end());
    Detector::Access(Detector::get())->works.note_end(work, ended);
  }

  detection::Label whole_label() const {
    return {op_, true, is_on_communication_stream_, group_.name};
  }

  void order(core::StreamId stream) {
    Enforcer& enforcer = Enforcer::get();
    Confirmer& confirmer = Confirmer::get();
    const bool is_active = enforcer.is_active() || confirmer.is_active();
    if (!is_active || thread_.accesses.empty()) return;
    const core::LabelId label = Detector::Access(Detector::get())->labels.intern(whole_label());
    const core::OpInfo info{label, site_};
    if (enforcer.is_active()) {
      enforcer.order_collective(thread_, stream, group_.communicator, thread_.accesses, info);
    }
    if (confirmer.is_active()) {
      confirmer.before_collective(thread_, stream, group_.communicator, thread_.accesses, info);
    }
  }

  // torch has just recorded the collective's end, and nobody has seen that event yet. What is
  // copied right behind the collective must lie before it.
  void record_again_behind_copies(core::EventId event, core::StreamId stream) const {
    if (!Confirmer::get().is_active()) return;
    uint64_t handle = 0;
    {
      const Detector::Access detector(Detector::get());
      if (detector->engine.is_capturing(stream)) return;
      handle = detector->streams.get(stream).handle;
    }
    const OwnCalls own_calls;
    cudaEventRecord(reinterpret_cast<cudaEvent_t>(event.value),
                    reinterpret_cast<cudaStream_t>(handle));
  }

  void release_records() {
    if (held_records_.empty()) return;
    const Detector::Access detector(Detector::get());
    for (const core::EventId event : held_records_) {
      detector->engine.record_event(thread_.id, event, current_stream_);
    }
    held_records_.clear();
  }

  std::string op_;
  Group group_;
  core::StreamId current_stream_;
  bool is_on_communication_stream_ = false;
  bool is_captured_ = false;
  core::StreamId communication_stream_ = core::kNoStream;
  c10::SmallVector<core::EventId, 2> held_records_;
  // Of an asynchronous one: the blocks it keeps alive, and the events that were recorded behind it.
  std::vector<core::AllocationId> blocks_;
  std::vector<core::EventId> end_events_;
};

core::AccessKind kind_of(TensorUse use, bool is_root) {
  switch (use) {
    case TensorUse::kWriteOnRoot:
      return is_root ? core::AccessKind::kWrite : core::AccessKind::kRead;
    case TensorUse::kReadOnRoot:
      return is_root ? core::AccessKind::kRead : core::AccessKind::kWrite;
    case TensorUse::kWrite:
      return core::AccessKind::kWrite;
    case TensorUse::kRead:
    case TensorUse::kNone:
      break;
  }
  return core::AccessKind::kRead;
}

c10::DeviceIndex device_of(const c10::IValue& value) {
  if (value.isTensor()) {
    const at::Tensor& tensor = value.toTensor();
    return tensor.defined() && tensor.is_cuda() ? tensor.device().index() : c10::DeviceIndex{-1};
  }
  if (!value.isList()) return -1;
  for (const c10::IValue& element : value.toListRef()) {
    const c10::DeviceIndex device = device_of(element);
    if (device >= 0) return device;
  }
  return -1;
}

class CollectiveObserver final : public KernelObserver {
 public:
  CollectiveObserver(OpSchema schema, c10::KernelFunction kernel, const CollectiveRule& rule,
                     const c10::FunctionSchema& arguments)
      : KernelObserver(std::move(schema), std::move(kernel)),
        rule_(rule),
        group_argument_(arguments.argumentIndexWithName("process_group")),
        root_argument_(arguments.argumentIndexWithName("root_rank")),
        async_argument_(arguments.argumentIndexWithName("async_op")) {}

 protected:
  void observe(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
               torch::jit::Stack* stack) override {
    const auto arguments = torch::jit::last(*stack, schema_.arguments.size());
    const c10::DeviceIndex device = device_of(arguments[0]);
    const Group group = group_of(arguments);
    const bool is_root = root_argument_ && arguments[*root_argument_].toInt() == group.rank;
    CollectiveScope scope(this_thread(), label_, schema_.name, group,
                          device >= 0 ? device : current_device());
    add_tensors(scope, arguments[0], rule_.first, is_root);
    add_tensors(scope, arguments[1], rule_.second, is_root);
    if (async_argument_ && !arguments[*async_argument_].toBool()) scope.order_on_current_stream();
    kernel_.callBoxed(op, keys, stack);
    scope.finish_collective(work_of(*stack));
  }

 private:
  static void add_tensors(OpScope& scope, const c10::IValue& value, TensorUse use, bool is_root) {
    if (use == TensorUse::kNone) return;
    scope.add_value(value, kind_of(use, is_root));
  }

  const c10d::Work* work_of(const torch::jit::Stack& stack) const {
    const auto results = torch::jit::last(stack, schema_.returns.size());
    for (const c10::IValue& result : results) {
      if (result.isCustomClass()) return result.toCustomClass<c10d::Work>().get();
    }
    return nullptr;
  }

  Group group_of(c10::ArrayRef<c10::IValue> arguments) const {
    Group group;
    if (!group_argument_) return group;
    const auto process_group = arguments[*group_argument_].toCustomClass<c10d::ProcessGroup>();
    group.rank = process_group->getRank();
    const std::string& description = process_group->getGroupDesc();
    const bool has_description = !description.empty() && description != "undefined";
    group.name = has_description ? description : process_group->getGroupName();
    // HB-09 speaks of collectives; sends and receives use a communicator for each pair of ranks.
    const bool is_point_to_point =
        schema_.name == "c10d::send" || schema_.name.starts_with("c10d::recv");
    if (!is_point_to_point) {
      group.communicator = core::CommunicatorId{reinterpret_cast<uint64_t>(process_group.get())};
    }
    return group;
  }

  const CollectiveRule& rule_;
  std::optional<int> group_argument_;
  std::optional<int> root_argument_;
  std::optional<int> async_argument_;
};

}  // namespace

std::unique_ptr<KernelObserver> make_collective_observer(const c10::OperatorHandle& op,
                                                         OpSchema schema,
                                                         c10::KernelFunction kernel) {
  const CollectiveRule* rule = rule_of(schema.name);
  if (rule == nullptr) {
    return std::make_unique<KernelObserver>(std::move(schema), std::move(kernel));
  }
  return std::make_unique<CollectiveObserver>(std::move(schema), std::move(kernel), *rule,
                                              op.schema());
}

}  // namespace streamguard::hooks
