#pragma once

#include <Python.h>

namespace streamguard::hooks {

/// Holds the GIL for its lifetime, unless the interpreter is being torn down: a thread that asks
/// for the GIL then never comes back, so `held()` is false and the caller does without Python.
///
/// REQUIRES: no lock of ours is held (a thread with the GIL may be waiting for it).
class ScopedGil {
 public:
  ScopedGil() : held_(Py_IsInitialized() && !is_finalizing()) {
    if (held_) state_ = PyGILState_Ensure();
  }
  ~ScopedGil() {
    if (held_) PyGILState_Release(state_);
  }
  ScopedGil(const ScopedGil&) = delete;
  ScopedGil& operator=(const ScopedGil&) = delete;

  bool held() const { return held_; }

 private:
  static bool is_finalizing() {
#if PY_VERSION_HEX >= 0x030D0000
    return Py_IsFinalizing();
#else
    return _Py_IsFinalizing();
#endif
  }

  bool held_;
  PyGILState_STATE state_{};
};

}  // namespace streamguard::hooks
