// A profiler plugin of NCCL: notes calls that neither torch.distributed made nor the preloaded
// library heard, because NCCL is linked statically there or was reached by dlsym.
//
// Only interface version 5 (NCCL 2.28) will do. It tells of a call while the caller's thread is in
// it, so that this thread's depths say who called. Version 4 tells when a call is queued for
// launch: at the end of a group, on a thread of NCCL's own, or when a graph is launched.
//
// Like the preloaded library it needs the C library only. It stays loaded once it is: the log
// outlives the last communicator.
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_profiler/call_log.h"
#include "nccl_profiler/profiler_abi.h"

namespace {

using namespace streamguard::nccl_profiler;
using streamguard::interposer::kNcclCallKinds;
using streamguard::interposer::kNcclCalls;

struct Communicator {
  uint64_t number;
  int rank;
  int ranks;
};

using Depth = int* (*)();

// Held for a call of ours only, and no call of anybody else is made under it.
pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
CallLog call_log;
Depth recorded_depth = nullptr;  // found in the preloaded library
Depth heard_depth = nullptr;

uint64_t now_ns() {
  timespec time{};
  clock_gettime(CLOCK_REALTIME, &time);
  return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

int kind_of(const char* function) {
  constexpr size_t kPrefix = sizeof "nccl" - 1;
  for (int kind = 0; kind < kNcclCallKinds; ++kind) {
    if (strcmp(kNcclCalls[kind] + kPrefix, function) == 0) return kind;
  }
  return kOtherCall;
}

template <size_t kSize>
void copy_text(char (&target)[kSize], const char* text) {
  strncpy(target, text == nullptr ? "" : text, kSize - 1);
}

bool has_root(const char* function) {
  return strcmp(function, "Broadcast") == 0 || strcmp(function, "Reduce") == 0;
}

void* handle_of(uint64_t number) { return reinterpret_cast<void*>(number); }

struct Lock {
  Lock() { pthread_mutex_lock(&mutex); }
  ~Lock() { pthread_mutex_unlock(&mutex); }
};

// REQUIRES: the mutex is held. Null when newer calls have taken its place.
NotedCall* find(void* handle) {
  const auto number = reinterpret_cast<uint64_t>(handle);
  if (number == 0) return nullptr;
  NotedCall* call = &call_log.calls[(number - 1) % kNotedCalls];
  return __atomic_load_n(&call->number, __ATOMIC_ACQUIRE) == number ? call : nullptr;
}

void* note(const Communicator& communicator, const char* function, size_t count, const char* type,
           void* stream, bool is_captured, int peer) {
  if (*recorded_depth() != 0) return nullptr;
  const bool was_heard = *heard_depth() != 0;
  const Lock lock;
  if (!was_heard) {
    __atomic_fetch_add(&call_log.counts[kind_of(function)], 1, __ATOMIC_RELAXED);
  }
  const uint64_t number = __atomic_add_fetch(&call_log.next, 1, __ATOMIC_RELAXED);
  NotedCall* call = &call_log.calls[(number - 1) % kNotedCalls];
  __atomic_store_n(&call->number, 0, __ATOMIC_RELEASE);
  *call = {};
  call->time_ns = now_ns();
  call->communicator = communicator.number;
  call->count = count;
  call->stream = reinterpret_cast<uint64_t>(stream);
  call->rank = communicator.rank;
  call->ranks = communicator.ranks;
  call->peer = peer;
  call->was_heard = was_heard;
  call->is_captured = is_captured;
  copy_text(call->function, function);
  copy_text(call->type, type);
  __atomic_store_n(&call->number, number, __ATOMIC_RELEASE);
  return handle_of(number);
}

Result init(void** context, uint64_t number, int* mask, const char*, int, int ranks, int rank,
            Logger) {
  *mask = 0;
  auto* communicator = static_cast<Communicator*>(malloc(sizeof(Communicator)));
  if (communicator == nullptr) return kInternalError;
  *communicator = {number, rank, ranks};
  *context = communicator;
  recorded_depth = reinterpret_cast<Depth>(dlsym(RTLD_DEFAULT, "streamguard_recorded_depth"));
  heard_depth = reinterpret_cast<Depth>(dlsym(RTLD_DEFAULT, "streamguard_nccl_depth"));
  const auto tell = reinterpret_cast<decltype(&streamguard_set_nccl_call_log)>(
      dlsym(RTLD_DEFAULT, "streamguard_set_nccl_call_log"));
  if (recorded_depth == nullptr || heard_depth == nullptr || tell == nullptr) return kSuccess;
  __atomic_fetch_add(&call_log.communicators, 1, __ATOMIC_RELAXED);
  tell(&call_log);
  *mask = kCollectiveCall | kMessageCall | kCollective | kMessage;
  return kSuccess;
}

Result start(void* context, void** handle, EventV5* event) {
  // NCCL keeps the handle of an earlier event where none is given.
  *handle = nullptr;
  const auto& communicator = *static_cast<const Communicator*>(context);
  switch (event->type) {
    case kCollectiveCall: {
      const auto& call = event->collective_call;
      *handle = note(communicator, call.function, call.count, call.type, call.stream,
                     call.is_captured, has_root(call.function) ? call.root : -1);
      break;
    }
    case kMessageCall: {
      const auto& call = event->message_call;
      *handle = note(communicator, call.function, call.count, call.type, call.stream,
                     call.is_captured, -1);
      break;
    }
    case kCollective: {
      const Lock lock;
      if (NotedCall* call = find(event->parent)) {
        call->send = reinterpret_cast<uint64_t>(event->collective.call.send);
        call->receive = reinterpret_cast<uint64_t>(event->collective.call.receive);
      }
      break;
    }
    case kMessage: {
      const Lock lock;
      if (NotedCall* call = find(event->parent)) {
        const bool is_send = strcmp(call->function, "Send") == 0;
        (is_send ? call->send : call->receive) =
            reinterpret_cast<uint64_t>(event->message.call.buffer);
        call->peer = event->message.call.peer;
      }
      break;
    }
    default:
      break;
  }
  return kSuccess;
}

Result stop(void*) { return kSuccess; }

Result record_state(void*, int, void*) { return kSuccess; }

Result finalize(void* context) {
  free(context);
  return kSuccess;
}

}  // namespace

extern "C" __attribute__((visibility("default")))
const PluginV5 ncclProfiler_v5 = {"streamguard", &init, &start, &stop, &record_state, &finalize};
