// NCCL calls that communicate.
#include <cstring>
#include <map>

#include "../export.h"
#include "handles.h"
#include "last_error.h"

using namespace streamguard::vgpu::nccl;

namespace {

// Reductions made by programs, by number. Numbers are never used twice.
struct MadeReductions {
  std::mutex mutex;
  std::map<int, std::shared_ptr<const Factor>> factors;
  int next = ncclNumOps;
};
MadeReductions& made_reductions() {
  static auto* const kMade = new MadeReductions;
  return *kMade;
}

ncclResult_t refuse(const std::string& text) {
  set_last_error(text);
  return ncclInvalidArgument;
}

// Replaces a made reduction by what it is: a sum with a factor.
bool resolve_reduction(Call& call) {
  if (call.reduction >= ncclSum && call.reduction < ncclNumOps) return true;
  MadeReductions& made = made_reductions();
  const std::lock_guard<std::mutex> guard(made.mutex);
  const auto found = made.factors.find(call.reduction);
  if (found == made.factors.end()) return false;
  call.factor = found->second;
  call.reduction = ncclSum;
  return true;
}

ncclResult_t run(ncclComm_t handle, Call call, cudaStream_t stream) {
  const std::shared_ptr<Communicator> communicator = find(handle);
  if (communicator == nullptr) return refuse("no such communicator");
  if (!is_data_type(call.type)) return refuse("unknown data type " + std::to_string(call.type));
  const bool names_rank = call.root != -1;
  if (names_rank && (call.root < 0 || call.root >= communicator->ranks())) {
    return refuse("rank " + std::to_string(call.root) + " of " +
                  std::to_string(communicator->ranks()) + " ranks");
  }
  if (!resolve_reduction(call)) return refuse("unknown reduction");
  if (const ncclResult_t error = communicator->async_error(); error != ncclSuccess) return error;
  return submit(communicator, std::move(call), stream);
}

Call make_call(Kind kind, const void* send, void* receive, size_t count, ncclDataType_t type) {
  Call call;
  call.kind = kind;
  call.send = send;
  call.receive = receive;
  call.count = count;
  call.type = type;
  return call;
}

Call with_root(Call call, int root) {
  // -1 means "none": a root of -1 from the program must stay an error.
  call.root = root == -1 ? -2 : root;
  return call;
}

Call with_reduction(Call call, ncclRedOp_t reduction) {
  call.reduction = reduction;
  return call;
}

}  // namespace

VGPU_API ncclResult_t ncclAllReduce(const void* send, void* receive, size_t count,
                                    ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm,
                                    cudaStream_t stream) {
  const Call call = make_call(Kind::kAllReduce, send, receive, count, type);
  return run(comm, with_reduction(call, reduction), stream);
}

VGPU_API ncclResult_t ncclReduce(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 ncclRedOp_t reduction, int root, ncclComm_t comm,
                                 cudaStream_t stream) {
  const Call call = make_call(Kind::kReduce, send, receive, count, type);
  return run(comm, with_root(with_reduction(call, reduction), root), stream);
}

VGPU_API ncclResult_t ncclBroadcast(const void* send, void* receive, size_t count,
                                    ncclDataType_t type, int root, ncclComm_t comm,
                                    cudaStream_t stream) {
  return run(comm, with_root(make_call(Kind::kBroadcast, send, receive, count, type), root),
             stream);
}

VGPU_API ncclResult_t ncclBcast(void* buffer, size_t count, ncclDataType_t type, int root,
                                ncclComm_t comm, cudaStream_t stream) {
  return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

VGPU_API ncclResult_t ncclAllGather(const void* send, void* receive, size_t count,
                                    ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return run(comm, make_call(Kind::kAllGather, send, receive, count, type), stream);
}

VGPU_API ncclResult_t ncclReduceScatter(const void* send, void* receive, size_t count,
                                        ncclDataType_t type, ncclRedOp_t reduction, ncclComm_t comm,
                                        cudaStream_t stream) {
  const Call call = make_call(Kind::kReduceScatter, send, receive, count, type);
  return run(comm, with_reduction(call, reduction), stream);
}

VGPU_API ncclResult_t ncclAlltoAll(const void* send, void* receive, size_t count,
                                   ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return run(comm, make_call(Kind::kAllToAll, send, receive, count, type), stream);
}

VGPU_API ncclResult_t ncclGather(const void* send, void* receive, size_t count, ncclDataType_t type,
                                 int root, ncclComm_t comm, cudaStream_t stream) {
  return run(comm, with_root(make_call(Kind::kGather, send, receive, count, type), root), stream);
}

VGPU_API ncclResult_t ncclScatter(const void* send, void* receive, size_t count,
                                  ncclDataType_t type, int root, ncclComm_t comm,
                                  cudaStream_t stream) {
  return run(comm, with_root(make_call(Kind::kScatter, send, receive, count, type), root), stream);
}

VGPU_API ncclResult_t ncclSend(const void* send, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream) {
  return run(comm, with_root(make_call(Kind::kSend, send, nullptr, count, type), peer), stream);
}

VGPU_API ncclResult_t ncclRecv(void* receive, size_t count, ncclDataType_t type, int peer,
                               ncclComm_t comm, cudaStream_t stream) {
  return run(comm, with_root(make_call(Kind::kReceive, nullptr, receive, count, type), peer),
             stream);
}

VGPU_API ncclResult_t ncclGroupStart() {
  open_group();
  return ncclSuccess;
}

VGPU_API ncclResult_t ncclGroupEnd() { return close_group(); }

VGPU_API ncclResult_t ncclRedOpCreatePreMulSum(ncclRedOp_t* reduction, void* scalar,
                                               ncclDataType_t type, ncclScalarResidence_t residence,
                                               ncclComm_t) {
  if (!is_data_type(type)) return refuse("unknown data type " + std::to_string(type));
  auto factor = std::make_shared<Factor>();
  if (residence == ncclScalarDevice) {
    factor->device_pointer = scalar;
  } else {
    std::memcpy(factor->value, scalar, size_of(type));
  }
  MadeReductions& made = made_reductions();
  const std::lock_guard<std::mutex> guard(made.mutex);
  made.factors[made.next] = std::move(factor);
  *reduction = static_cast<ncclRedOp_t>(made.next++);
  return ncclSuccess;
}

// Calls made with the reduction keep it.
VGPU_API ncclResult_t ncclRedOpDestroy(ncclRedOp_t reduction, ncclComm_t) {
  MadeReductions& made = made_reductions();
  const std::lock_guard<std::mutex> guard(made.mutex);
  return made.factors.erase(reduction) != 0 ? ncclSuccess : refuse("unknown reduction");
}
