#pragma once

namespace streamguard::hooks {

/// Whether the calling thread is making CUDA calls of our own, which are no part of the program.
bool is_own_call();

/// Marks them while it lives.
class OwnCalls {
 public:
  OwnCalls();
  ~OwnCalls();
  OwnCalls(const OwnCalls&) = delete;
  OwnCalls& operator=(const OwnCalls&) = delete;
};

}  // namespace streamguard::hooks
