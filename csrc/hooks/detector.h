#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "detection/detector_state.h"
#include "hooks/sites.h"
#include "trace/recorder.h"

namespace streamguard::hooks {

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
    detection::DetectorState* operator->() const { return detector_.state_.get(); }
    detection::DetectorState& operator*() const { return *detector_.state_; }

   private:
    Detector& detector_;
    std::lock_guard<std::mutex> lock_;
  };

  /// Findings were filed that `take_unannounced` has not handed out, or the recorder is full.
  bool has_news() const { return has_news_.load(std::memory_order_acquire); }
  std::vector<int> take_unannounced();

  StackTable& stacks() { return stacks_; }

  /// For the thread that forks, around the fork. REQUIRES of `begin_anew`: there is one thread.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }
  /// Forgets everything but the labels, whose numbers the observers keep.
  void begin_anew();

  /// From now on every call is recorded, until `stop_recording`.
  void start_recording();
  void stop_recording();
  /// What was recorded since the last call, and the labels that are new in it.
  struct Recorded {
    trace::Recorder::Chunk chunk;
    std::vector<detection::Label> new_labels;
  };
  Recorded take_recorded();
  /// Memory of a chunk that was written, to be used again.
  void give_back(trace::Recorder::Chunk written);
  /// A recorder that is full must be emptied by the thread that fills it, where it holds no lock.
  bool is_recorder_full();

 private:
  Detector() : state_(std::make_unique<detection::DetectorState>()) {}
  void file_results();

  std::atomic<bool> is_active_{false};
  std::atomic<bool> has_news_{false};
  std::mutex mutex_;
  std::unique_ptr<detection::DetectorState> state_;
  StackTable stacks_;  // has its own mutex
  std::unique_ptr<trace::Recorder> recorder_;
  trace::Recorder::Chunk spare_chunk_;
  size_t labels_taken_ = 0;
};

}  // namespace streamguard::hooks
