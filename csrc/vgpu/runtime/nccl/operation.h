// The ops of one NCCL call or group on one communicator.
#ifndef STREAMGUARD_VGPU_RUNTIME_NCCL_OPERATION_H_
#define STREAMGUARD_VGPU_RUNTIME_NCCL_OPERATION_H_

#include <memory>
#include <vector>

#include "communicator.h"

namespace streamguard::vgpu::nccl {

// The multiplier of a reduction made by ncclRedOpCreatePreMulSum.
struct Factor {
  const void* device_pointer = nullptr;  // read when the collective starts
  unsigned char value[8] = {};           // else this
};

// One call as the program made it.
struct Call {
  Kind kind = Kind::kAllReduce;
  const void* send = nullptr;
  void* receive = nullptr;
  size_t count = 0;
  ncclDataType_t type = ncclInt8;
  ncclRedOp_t reduction = ncclSum;
  int root = -1;  // root or peer; -1 for neither
  std::shared_ptr<const Factor> factor;
};

// Calls that run as one, like one NCCL kernel: all inputs are read by the start, all outputs
// written by the end. Each half is an op of the stream; neither blocks. A group in a captured
// graph runs once per launch.
// Thread safety: the thread that executes ops.
class Group {
 public:
  Group(std::shared_ptr<Communicator> communicator, std::vector<Call> calls)
      : communicator_(std::move(communicator)), calls_(std::move(calls)), indices_(calls_.size()) {}

  int start();  // as streamguard_vgpu_step::run
  int end();
  Demand demand() const { return communicator_->demand(); }

 private:
  bool start_call(size_t position);
  PeerWait await_call(size_t position) const;
  void finish_call(size_t position);
  Message message_of(const Call& call) const;
  void write_reduction(const Call& call, uint64_t index, size_t skip_elements) const;
  bool reads(const Call& call, int rank) const;
  int failed_answer();

  const std::shared_ptr<Communicator> communicator_;
  const std::vector<Call> calls_;
  std::vector<uint64_t> indices_;  // number of the collective, by call
  size_t started_ = 0;
  size_t ended_ = 0;
};

// Queues both ops of calls on one communicator. All start ops of one NCCL group are queued before
// the first end op: `enqueue_end` does the second half.
class QueuedGroup {
 public:
  QueuedGroup(std::shared_ptr<Communicator> communicator, std::vector<Call> calls,
              std::vector<cudaStream_t> streams);
  ncclResult_t enqueue_start();
  ncclResult_t enqueue_end();

 private:
  const std::shared_ptr<Communicator> communicator_;
  const std::vector<cudaStream_t> streams_;
  std::string label_;
  std::shared_ptr<Group> group_;
};

}  // namespace streamguard::vgpu::nccl

#endif  // STREAMGUARD_VGPU_RUNTIME_NCCL_OPERATION_H_
