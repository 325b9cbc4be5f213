#include "operation.h"

#include <cstring>

#include "reduce.h"

namespace streamguard::vgpu::nccl {
namespace {

constexpr int kDone = 0;
constexpr int kWaiting = 1;
constexpr int kStalled = 2;

bool is_point_to_point(Kind kind) { return kind == Kind::kSend || kind == Kind::kReceive; }

// Elements a rank publishes.
size_t published_elements(const Call& call, int rank, int ranks) {
  const auto all = static_cast<size_t>(ranks);
  switch (call.kind) {
    case Kind::kAllReduce:
    case Kind::kReduce:
    case Kind::kAllGather:
    case Kind::kGather:
    case Kind::kSend:
      return call.count;
    case Kind::kBroadcast:
      return rank == call.root ? call.count : 0;
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return call.count * all;
    case Kind::kScatter:
      return rank == call.root ? call.count * all : 0;
    case Kind::kReceive:
      return 0;
  }
  return 0;
}

}  // namespace

Message Group::message_of(const Call& call) const {
  Message message;
  message.kind = call.kind;
  message.type = call.type;
  message.reduction = call.reduction;
  message.root = call.root;
  message.count = call.count;
  const size_t elements =
      call.kind == Kind::kReceive
          ? call.count
          : published_elements(call, communicator_->rank(), communicator_->ranks());
  message.bytes = elements * size_of(call.type);
  if (call.factor != nullptr) {
    message.has_factor = 1;
    const void* value =
        call.factor->device_pointer != nullptr ? call.factor->device_pointer : call.factor->value;
    std::memcpy(message.factor, value, size_of(call.type));
  }
  return message;
}

int Group::failed_answer() {
  if (communicator_->is_aborted() || streamguard_vgpu_is_ending() != 0) return kDone;
  // Stalled, not waiting: the host goes on after issue, and its next wait meets the error.
  if (!communicator_->has_given_up()) return kStalled;
  streamguard_vgpu_set_sticky_error(cudaErrorLaunchFailure);
  return kDone;
}

int Group::start() {
  if (communicator_->is_aborted()) return kDone;
  if (communicator_->async_error() != ncclSuccess) return failed_answer();
  if (started_ == calls_.size()) started_ = 0;  // a graph's next launch
  for (; started_ < calls_.size(); ++started_) {
    if (!start_call(started_)) return kWaiting;
  }
  ended_ = 0;
  return kDone;
}

bool Group::start_call(size_t position) {
  const Call& call = calls_[position];
  if (call.kind == Kind::kReceive) return true;
  if (call.kind == Kind::kSend) {
    return communicator_->send(call.root, message_of(call), call.send);
  }
  indices_[position] = communicator_->started();
  return communicator_->publish(message_of(call), call.send);
}

// The peers whose message this rank's result depends on.
bool Group::reads(const Call& call, int rank) const {
  switch (call.kind) {
    case Kind::kAllReduce:
    case Kind::kAllGather:
    case Kind::kReduceScatter:
    case Kind::kAllToAll:
      return true;
    case Kind::kReduce:
    case Kind::kGather:
      return communicator_->rank() == call.root;
    case Kind::kBroadcast:
    case Kind::kScatter:
      return rank == call.root;
    case Kind::kReceive:
      return rank == call.root;
    case Kind::kSend:
      return false;
  }
  return false;
}

PeerWait Group::await_call(size_t position) const {
  const Call& call = calls_[position];
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    if (!reads(call, rank)) continue;
    const PeerWait wait =
        is_point_to_point(call.kind)
            ? communicator_->await_message(rank, message_of(call))
            : communicator_->await_collective(rank, indices_[position], message_of(call));
    if (wait != PeerWait::kArrived) return wait;
  }
  return PeerWait::kArrived;
}

int Group::end() {
  if (!communicator_->is_aborted()) communicator_->compare_with_peers();
  for (; ended_ < calls_.size(); ++ended_) {
    if (communicator_->is_aborted()) return kDone;
    if (communicator_->async_error() != ncclSuccess) return failed_answer();
    const PeerWait wait = await_call(ended_);
    if (wait != PeerWait::kArrived) return wait == PeerWait::kStalled ? kStalled : kWaiting;
    finish_call(ended_);
  }
  return kDone;
}

void Group::write_reduction(const Call& call, uint64_t index, size_t skip_elements) const {
  std::vector<Operand> operands;
  for (int rank = 0; rank < communicator_->ranks(); ++rank) {
    const Message& message = communicator_->collective_of(rank, index);
    operands.push_back({communicator_->data_of(rank, message) + skip_elements * size_of(call.type),
                        message.has_factor != 0 ? message.factor : nullptr});
  }
  reduce(call.receive, operands, call.count, call.type, call.reduction);
}

void Group::finish_call(size_t position) {
  const Call& call = calls_[position];
  Communicator& comm = *communicator_;
  const uint64_t index = indices_[position];
  const size_t bytes = call.count * size_of(call.type);
  auto* output = static_cast<char*>(call.receive);
  auto data_of = [&](int rank) { return comm.data_of(rank, comm.collective_of(rank, index)); };
  const auto own = static_cast<size_t>(comm.rank());
  switch (call.kind) {
    case Kind::kAllReduce:
      write_reduction(call, index, 0);
      break;
    case Kind::kReduce:
      if (comm.rank() == call.root) write_reduction(call, index, 0);
      break;
    case Kind::kReduceScatter:
      write_reduction(call, index, own * call.count);
      break;
    case Kind::kBroadcast:
      std::memcpy(output, data_of(call.root), bytes);
      break;
    case Kind::kScatter:
      std::memcpy(output, data_of(call.root) + own * bytes, bytes);
      break;
    case Kind::kGather:
      if (comm.rank() != call.root) break;
      [[fallthrough]];
    case Kind::kAllGather:
      for (int rank = 0; rank < comm.ranks(); ++rank) {
        std::memcpy(output + static_cast<size_t>(rank) * bytes, data_of(rank), bytes);
      }
      break;
    case Kind::kAllToAll:
      for (int rank = 0; rank < comm.ranks(); ++rank) {
        std::memcpy(output + static_cast<size_t>(rank) * bytes, data_of(rank) + own * bytes, bytes);
      }
      break;
    case Kind::kReceive:
      std::memcpy(output, comm.data_of(call.root, comm.next_message(call.root)), bytes);
      comm.finish_receive(call.root);
      return;
    case Kind::kSend:
      return;
  }
  comm.finish_collective();
}

namespace {

enum class Half { kStart, kEnd };

struct HalfStep {
  std::shared_ptr<Group> group;
  Half half;
};

ncclResult_t issue_half(const std::shared_ptr<Group>& group, Half half, cudaStream_t stream,
                        streamguard_vgpu_chain* chain, const std::string& label) {
  auto context = std::make_unique<HalfStep>(HalfStep{group, half});
  streamguard_vgpu_step step{};
  step.run = [](void* self) {
    const auto* half_step = static_cast<HalfStep*>(self);
    return half_step->half == Half::kStart ? half_step->group->start() : half_step->group->end();
  };
  step.demand = [](void* self) {
    return static_cast<int>(static_cast<HalfStep*>(self)->group->demand());
  };
  step.release = [](void* self) {
    const std::unique_ptr<HalfStep> gone(static_cast<HalfStep*>(self));
  };
  step.context = context.release();
  return streamguard_vgpu_issue_step(stream, &step, chain, label.c_str()) == cudaSuccess
             ? ncclSuccess
             : ncclUnhandledCudaError;
}

std::string label_of(const Communicator& communicator, const std::vector<Call>& calls) {
  std::string label;
  for (const Call& call : calls) {
    label += (label.empty() ? "" : "+") + std::string(name_of(call.kind)) + "(" +
             std::to_string(call.count) + "," + name_of(call.type) + ")";
    if (label.size() > 200) return label + "... comm=" + communicator.name();
  }
  return label + " comm=" + communicator.name();
}

// A stream handle of 0 means the default stream of the current device; a communicator's is its own.
class OnDevice {
 public:
  explicit OnDevice(int device) {
    cudaGetDevice(&previous_);
    cudaSetDevice(device);
  }
  ~OnDevice() { cudaSetDevice(previous_); }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

 private:
  int previous_ = 0;
};

}  // namespace

QueuedGroup::QueuedGroup(std::shared_ptr<Communicator> communicator, std::vector<Call> calls,
                         std::vector<cudaStream_t> streams)
    : communicator_(std::move(communicator)),
      streams_(std::move(streams)),
      label_(label_of(*communicator_, calls)),
      group_(std::make_shared<Group>(communicator_, std::move(calls))) {}

// A group on several streams runs on the first; it waits for the others and they for it.
ncclResult_t QueuedGroup::enqueue_start() {
  const OnDevice on_device(communicator_->device());
  for (size_t i = 1; i < streams_.size(); ++i) {
    if (streamguard_vgpu_join(streams_[0], streams_[i]) != cudaSuccess) {
      return ncclUnhandledCudaError;
    }
  }
  return issue_half(group_, Half::kStart, streams_[0], communicator_->chain(),
                    "collective_start " + label_);
}

ncclResult_t QueuedGroup::enqueue_end() {
  const OnDevice on_device(communicator_->device());
  const ncclResult_t result = issue_half(group_, Half::kEnd, streams_[0], communicator_->chain(),
                                         "collective_end " + label_);
  for (size_t i = 1; i < streams_.size() && result == ncclSuccess; ++i) {
    if (streamguard_vgpu_join(streams_[i], streams_[0]) != cudaSuccess) {
      return ncclUnhandledCudaError;
    }
  }
  return result;
}

}  // namespace streamguard::vgpu::nccl
