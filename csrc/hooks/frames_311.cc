// Python 3.11: `cframe->current_frame`, code in `f_code`. Other minors have their own file.
#include <patchlevel.h>

#if PY_VERSION_HEX >= 0x030B0000 && PY_VERSION_HEX < 0x030C0000

#define Py_BUILD_CORE
#include <Python.h>
#include <internal/pycore_frame.h>
#undef Py_BUILD_CORE

#include "hooks/frames.h"

namespace streamguard::hooks {

int walk_frames(Frame* frames, int capacity) {
  const PyThreadState* thread = PyGILState_GetThisThreadState();
  if (thread == nullptr || thread->cframe == nullptr) return 0;
  int count = 0;
  for (_PyInterpreterFrame* frame = thread->cframe->current_frame;
       frame != nullptr && count < capacity; frame = frame->previous) {
    if (_PyFrame_IsIncomplete(frame)) continue;
    const int offset = _PyInterpreterFrame_LASTI(frame) * static_cast<int>(sizeof(_Py_CODEUNIT));
    frames[count++] = {frame->f_code, offset};
  }
  return count;
}

}  // namespace streamguard::hooks

#endif
