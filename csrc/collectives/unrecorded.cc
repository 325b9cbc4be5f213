#include "collectives/unrecorded.h"

#include <dlfcn.h>

#include <algorithm>

#include "interposer/nccl_calls.h"

namespace streamguard::collectives {
namespace {

using nccl_profiler::CallLog;
using nccl_profiler::kNotedCalls;
using nccl_profiler::NotedCall;

template <class Function>
Function* find(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_DEFAULT, name));
}

const CallLog* call_log() {
  const auto get = find<decltype(streamguard_nccl_call_log)>("streamguard_nccl_call_log");
  return get == nullptr ? nullptr : get();
}

std::vector<NotedCall> newest_of(const CallLog& log) {
  const uint64_t end = __atomic_load_n(&log.next, __ATOMIC_ACQUIRE);
  std::vector<NotedCall> newest;
  for (uint64_t i = end - std::min(end, kNotedCalls); i < end; ++i) {
    const NotedCall& call = log.calls[i % kNotedCalls];
    const uint64_t before = __atomic_load_n(&call.number, __ATOMIC_ACQUIRE);
    const NotedCall copy = call;
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    // Another number: a thread that still calls is writing it.
    const uint64_t after = __atomic_load_n(&call.number, __ATOMIC_RELAXED);
    if (before == i + 1 && after == before) newest.push_back(copy);
  }
  return newest;
}

}  // namespace

std::optional<UnrecordedCalls> unrecorded_nccl_calls() {
  const auto heard = find<decltype(streamguard_nccl_calls)>("streamguard_nccl_calls");
  if (heard == nullptr) return std::nullopt;
  UnrecordedCalls calls;
  const CallLog* log = call_log();
  for (int kind = 0; kind < interposer::kNcclCallKinds; ++kind) {
    uint64_t count = __atomic_load_n(heard() + kind, __ATOMIC_RELAXED);
    if (log != nullptr) count += __atomic_load_n(&log->counts[kind], __ATOMIC_RELAXED);
    if (count != 0) calls.counts[interposer::kNcclCalls[kind]] = count;
  }
  if (log == nullptr) return calls;
  const uint64_t others =
      __atomic_load_n(&log->counts[nccl_profiler::kOtherCall], __ATOMIC_RELAXED);
  if (others != 0) calls.counts["other NCCL calls"] = others;
  calls.newest = newest_of(*log);
  calls.is_plugin_loaded = true;
  return calls;
}

}  // namespace streamguard::collectives
