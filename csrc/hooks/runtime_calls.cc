#include "hooks/runtime_calls.h"

#include <cuda_runtime_api.h>
#include <cxxabi.h>
#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>

#include "cupti/subscriber.h"
#include "hooks/detector.h"
#include "hooks/gpu_trace.h"
#include "hooks/own_calls.h"
#include "hooks/raw_copy.h"
#include "hooks/thread_state.h"
#include "interposer/runtime_calls.h"

namespace streamguard::hooks {
namespace {

// Counted without the detector's mutex: a launch inside an op costs one addition.
std::atomic<uint64_t> launches{0};
std::atomic<uint64_t> copies{0};
std::atomic<uint64_t> raw_copies{0};
std::atomic<uint64_t> untraced_records{0};
std::atomic<uint64_t> untraced_waits{0};
std::atomic<uint64_t> untraced_syncs{0};
std::atomic<uint64_t> done_queries{0};
thread_local uint64_t newest_done_query = UINT64_MAX;  // that nobody has told of yet
std::atomic<bool> is_attached{false};

struct KernelNames {
  std::mutex mutex;
  std::map<std::pair<const void*, bool>, uint64_t> launches;  // key: kernel, whether a handle
};

// Never destroyed: kernels may be launched after main has returned.
KernelNames& opaque_kernels() {
  static KernelNames& kernels = *std::make_unique<KernelNames>().release();
  return kernels;
}

bool is_active() { return Detector::get().is_active() && !is_own_call(); }

bool is_inside_op(ThreadState& thread) {
  if (thread.scope != nullptr) return true;
  if (thread.declared_depth == 0) return false;
  ++thread.declared_work;
  return true;
}

void launched(const void* kernel, bool is_handle, void*) {
  if (!is_active()) return;
  ThreadState& thread = this_thread();
  if (is_inside_op(thread)) {
    launches.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  if (thread.muted_depth > 0) return;
  KernelNames& kernels = opaque_kernels();
  const std::lock_guard<std::mutex> lock(kernels.mutex);
  ++kernels.launches[{kernel, is_handle}];
}

void copied(void* target, const void* source, size_t bytes, void* stream, bool is_blocking) {
  if (!is_active()) return;
  if (is_inside_op(this_thread())) {
    copies.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  raw_copies.fetch_add(1, std::memory_order_relaxed);
  note_raw_copy(reinterpret_cast<uint64_t>(target), reinterpret_cast<uint64_t>(source), bytes,
                reinterpret_cast<uint64_t>(stream), is_blocking);
}

void filled(void* target, size_t bytes, void* stream) {
  if (!is_active()) return;
  if (is_inside_op(this_thread())) {
    copies.fetch_add(1, std::memory_order_relaxed);
    return;
  }
  raw_copies.fetch_add(1, std::memory_order_relaxed);
  note_raw_fill(reinterpret_cast<uint64_t>(target), bytes, reinterpret_cast<uint64_t>(stream));
}

// torch traces most of these calls right after it has made them, others before (syncs). What is
// seen here first is told at once, and the trace that follows is then passed over.
void recorded(void* event, void* stream) {
  if (!is_active()) return;
  untraced_records.fetch_add(1, std::memory_order_relaxed);
  note_raw_record(reinterpret_cast<uint64_t>(event), reinterpret_cast<uint64_t>(stream));
}

void waited(void* stream, void* event) {
  if (!is_active()) return;
  untraced_waits.fetch_add(1, std::memory_order_relaxed);
  note_raw_wait(reinterpret_cast<uint64_t>(event), reinterpret_cast<uint64_t>(stream));
}

// Counted only. Who asks is not known here, and what the allocators and the NCCL watchdog learn
// depends on timing: an order that another run would not have. Python's queries are patched.
void queried(void* handle, bool is_done) {
  if (!is_done || !is_active()) return;
  done_queries.fetch_add(1, std::memory_order_relaxed);
  newest_done_query = reinterpret_cast<uint64_t>(handle);
}

void event_synchronized(void* event) {
  if (!is_active() || was_sync_traced()) return;
  untraced_syncs.fetch_add(1, std::memory_order_relaxed);
  note_raw_event_sync(reinterpret_cast<uint64_t>(event));
}

void stream_synchronized(void* stream) {
  if (!is_active() || was_sync_traced()) return;
  untraced_syncs.fetch_add(1, std::memory_order_relaxed);
  note_raw_stream_sync(reinterpret_cast<uint64_t>(stream));
}

void device_synchronized() {
  if (!is_active() || was_sync_traced()) return;
  untraced_syncs.fetch_add(1, std::memory_order_relaxed);
  note_raw_device_sync();
}

void graph_launched(void*) {}  // torch's graphs are patched; see graphs.cc

constexpr interposer::RuntimeCalls kTable = {
    &launched,
    &copied,
    &filled,
    &recorded,
    &waited,
    &queried,
    &queried,
    &event_synchronized,
    &stream_synchronized,
    &device_synchronized,
    &graph_launched,
};

using Attach = void (*)(const interposer::RuntimeCalls*);

Attach attach_function() {
  return reinterpret_cast<Attach>(dlsym(RTLD_DEFAULT, "streamguard_attach_runtime"));
}

std::string name_of(const void* kernel, bool is_handle) {
  const char* mangled = nullptr;
  const cudaError_t status = is_handle ? cudaErrorNotSupported : cudaFuncGetName(&mangled, kernel);
  if (status != cudaSuccess || mangled == nullptr) {
    (void)cudaGetLastError();
    return "unnamed kernel";
  }
  int failed = 0;
  const std::unique_ptr<char, void (*)(void*)> readable(
      abi::__cxa_demangle(mangled, nullptr, nullptr, &failed), &std::free);
  std::string name = failed == 0 && readable != nullptr ? readable.get() : mangled;
  return name.substr(0, name.find('('));
}

}  // namespace

void attach_runtime() {
  const Attach attach = attach_function();
  if (attach == nullptr) return;
  attach(&kTable);
  is_attached.store(true);
}

void detach_runtime() {
  if (const Attach attach = attach_function()) attach(nullptr);
}

std::string hear_through_cupti(const std::string& library) {
  if (attach_function() != nullptr) return "the preloaded library hears the same calls";
  return cupti::Subscriber::get().start(library, kTable);
}

void leave_cupti() { cupti::Subscriber::get().stop(); }

void note_traced_record() { untraced_records.fetch_sub(1, std::memory_order_relaxed); }
void note_traced_wait() { untraced_waits.fetch_sub(1, std::memory_order_relaxed); }

void note_told_query(uint64_t handle) {
  if (newest_done_query != handle) return;
  newest_done_query = UINT64_MAX;
  done_queries.fetch_sub(1, std::memory_order_relaxed);
}

std::mutex& opaque_kernels_mutex() { return opaque_kernels().mutex; }

RuntimeCounts runtime_counts() {
  RuntimeCounts counts{is_attached.load(),    launches.load(),         copies.load(),
                       raw_copies.load(),     untraced_records.load(), untraced_waits.load(),
                       untraced_syncs.load(), done_queries.load(),     {}};
  KernelNames& kernels = opaque_kernels();
  std::map<std::pair<const void*, bool>, uint64_t> seen;
  {
    const std::lock_guard<std::mutex> lock(kernels.mutex);
    seen = kernels.launches;
  }
  for (const auto& [kernel, count] : seen) {
    counts.opaque_kernels[name_of(kernel.first, kernel.second)] += count;
  }
  return counts;
}

}  // namespace streamguard::hooks
