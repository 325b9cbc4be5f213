#pragma once

#include <Python.h>

#include <array>
#include <cstdint>
#include <deque>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "hooks/frames.h"

namespace streamguard::hooks {

/// Number of one interned Python stack; 0 means "no frames".
using StackId = uint32_t;

struct SourceLine {
  std::string file;
  int line;
  std::string function;
};

/// Interns Python stacks, so that an op carries four bytes and lines are computed only when
/// printed.
///
/// Thread safety: all members may be called from any thread.
/// Invariants: (1) an id never changes its meaning; (2) every stored code object is referenced by
/// us, for ever, so its address cannot be reused. Cost: `capture` of a known stack about 150 ns for
/// 16 frames, no lock, no GIL; a new stack takes both.
class StackTable {
 public:
  /// How many frames `capture` keeps, 0 to kMaxFrames.
  void set_depth(int depth) { depth_ = depth; }

  /// The calling thread's Python stack. REQUIRES: no lock of ours is held.
  StackId capture();

  /// For the thread that forks, around the fork.
  void lock_for_fork() { mutex_.lock(); }
  void unlock_after_fork() { mutex_.unlock(); }

  /// Stacks so far; their ids are 1 to `size()`.
  size_t size() const;

  /// Innermost frame first. REQUIRES: the GIL is held.
  std::vector<SourceLine> resolve(StackId stack) const;

 private:
  struct Stack {
    std::array<Frame, kMaxFrames> frames;
    int count;
  };

  StackId intern(const Frame* frames, int count, uint64_t hash);

  int depth_ = kMaxFrames;
  mutable std::mutex mutex_;
  std::unordered_map<uint64_t, StackId> by_hash_;
  std::deque<Stack> stacks_;
};

}  // namespace streamguard::hooks
