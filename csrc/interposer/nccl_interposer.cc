// Stands in front of NCCL: counts its collectives and messages that were not made by a recorded
// operator, and passes them on. NCCL reached by dlsym or linked statically goes around this
// library; csrc/nccl_profiler hears of it.
#include "interposer/nccl_calls.h"
#include "interposer/next.h"
#include "nccl_profiler/call_log.h"

#define INTERPOSED extern "C" __attribute__((visibility("default")))

namespace {

using streamguard::interposer::kNcclCallKinds;
using streamguard::interposer::kNcclCalls;

constexpr int kNotFound = 3;  // ncclInternalError

thread_local int recorded_depth = 0;
// NCCL makes some calls by others of its own.
thread_local int depth = 0;
uint64_t counts[kNcclCallKinds];
const streamguard::nccl_profiler::CallLog* call_log = nullptr;

void* find_nccl(const char* name) {
  return streamguard::interposer::find_next(name, {"libnccl.so.2"});
}

template <int kKind, class... Arguments>
int pass_on(Arguments... arguments) {
  static streamguard::interposer::Next<Arguments...> next(kNcclCalls[kKind], &find_nccl, kNotFound);
  if (recorded_depth == 0 && depth == 0) __atomic_fetch_add(&counts[kKind], 1, __ATOMIC_RELAXED);
  return next(depth, arguments...);
}

}  // namespace

INTERPOSED int* streamguard_recorded_depth() { return &recorded_depth; }

INTERPOSED int* streamguard_nccl_depth() { return &depth; }

INTERPOSED const uint64_t* streamguard_nccl_calls() { return counts; }

INTERPOSED void streamguard_set_nccl_call_log(const streamguard::nccl_profiler::CallLog* log) {
  __atomic_store_n(&call_log, log, __ATOMIC_RELEASE);
}

INTERPOSED const streamguard::nccl_profiler::CallLog* streamguard_nccl_call_log() {
  return __atomic_load_n(&call_log, __ATOMIC_ACQUIRE);
}

// Data types and reductions are enums, communicators and streams pointers.
INTERPOSED int ncclAllReduce(const void* send, void* receive, size_t count, int type, int reduction,
                             void* comm, void* stream) {
  return pass_on<0>(send, receive, count, type, reduction, comm, stream);
}

INTERPOSED int ncclReduce(const void* send, void* receive, size_t count, int type, int reduction,
                          int root, void* comm, void* stream) {
  return pass_on<1>(send, receive, count, type, reduction, root, comm, stream);
}

INTERPOSED int ncclBroadcast(const void* send, void* receive, size_t count, int type, int root,
                             void* comm, void* stream) {
  return pass_on<2>(send, receive, count, type, root, comm, stream);
}

INTERPOSED int ncclBcast(void* buffer, size_t count, int type, int root, void* comm, void* stream) {
  return pass_on<3>(buffer, count, type, root, comm, stream);
}

INTERPOSED int ncclAllGather(const void* send, void* receive, size_t count, int type, void* comm,
                             void* stream) {
  return pass_on<4>(send, receive, count, type, comm, stream);
}

INTERPOSED int ncclReduceScatter(const void* send, void* receive, size_t count, int type,
                                 int reduction, void* comm, void* stream) {
  return pass_on<5>(send, receive, count, type, reduction, comm, stream);
}

INTERPOSED int ncclAlltoAll(const void* send, void* receive, size_t count, int type, void* comm,
                            void* stream) {
  return pass_on<6>(send, receive, count, type, comm, stream);
}

INTERPOSED int ncclGather(const void* send, void* receive, size_t count, int type, int root,
                          void* comm, void* stream) {
  return pass_on<7>(send, receive, count, type, root, comm, stream);
}

INTERPOSED int ncclScatter(const void* send, void* receive, size_t count, int type, int root,
                           void* comm, void* stream) {
  return pass_on<8>(send, receive, count, type, root, comm, stream);
}

INTERPOSED int ncclSend(const void* send, size_t count, int type, int peer, void* comm,
                        void* stream) {
  return pass_on<9>(send, count, type, peer, comm, stream);
}

INTERPOSED int ncclRecv(void* receive, size_t count, int type, int peer, void* comm, void* stream) {
  return pass_on<10>(receive, count, type, peer, comm, stream);
}
