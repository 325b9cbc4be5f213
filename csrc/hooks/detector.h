#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>

#include "core/engine.h"
#include "core/name_table.h"
#include "hooks/asynchronous_works.h"
#include "hooks/findings.h"
#include "hooks/labels.h"
#include "hooks/sites.h"
#include "hooks/streams.h"
#include "hooks/watch_log.h"

namespace streamguard::hooks {

/// What the hooks saw since the process started.
struct Counters {
  uint64_t ops = 0;
  uint64_t accesses = 0;
  uint64_t collectives = 0;
  uint64_t waits = 0;
  uint64_t records = 0;
  uint64_t syncs = 0;
  uint64_t truncated_tensors = 0;
  uint64_t replays = 0;          // of CUDA graphs
  uint64_t unknown_replays = 0;  // of graphs captured while nobody watched, or inside another one
  uint64_t ordered_by_nccl = 0;
};

/// Everything the detector's mutex guards.
struct DetectorState {
  core::Engine engine;
  StreamTable streams{engine};
  LabelTable labels;
  core::NameTable names;
  FindingStore findings;
  WatchLog watch_log;
  AsynchronousWorks works;
  std::unordered_set<uint64_t> graph_blocks;  // addresses of blocks that captures allocated
  Counters counters;
  int64_t step = -1;
  core::LabelId free_label = labels.intern_op("free");
};

/// The one engine of this process, shared by all hooks.
///
/// Thread safety: `Access` holds the mutex. Lock order: the allocator's lock, then this mutex. So
/// while an `Access` lives no torch, CUDA or Python function may be called. Invariant: never
/// destroyed. Kernels and allocator callbacks may run after `main` has returned.
class Detector {
 public:
  static Detector& get();

  bool is_active() const { return is_active_.load(std::memory_order_relaxed); }
  void set_active(bool is_active) { is_active_.store(is_active, std::memory_order_relaxed); }

  /// Exclusive use of the state; on release new races are filed.
  class Access {
   public:
    explicit Access(Detector& detector) : detector_(detector), lock_(detector.mutex_) {}
    ~Access() { detector_.file_results(); }
    Access(const Access&) = delete;
    Access& operator=(const Access&) = delete;
    DetectorState* operator->() const { return detector_.state_.get(); }
    DetectorState& operator*() const { return *detector_.state_; }

   private:
    Detector& detector_;
    std::lock_guard<std::mutex> lock_;
  };

  /// Findings were filed that `take_unannounced` has not handed out.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  std::vector<int> take_unannounced();

  StackTable& stacks() { return stacks_; }

 private:
  Detector() : state_(std::make_unique<DetectorState>()) {}
  void file_results();

  std::atomic<bool> is_active_{false};
  std::atomic<bool> has_news_{false};
  std::mutex mutex_;
  std::unique_ptr<DetectorState> state_;
  StackTable stacks_;  // has its own mutex
};

}  // namespace streamguard::hooks
