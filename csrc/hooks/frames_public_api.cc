// Python minors whose frame layout we do not know: the public API, under the GIL.
#include <patchlevel.h>

#if PY_VERSION_HEX < 0x030B0000 || PY_VERSION_HEX >= 0x030D0000

#include "hooks/frames.h"
#include "hooks/python_state.h"

namespace streamguard::hooks {

int walk_frames(Frame* frames, int capacity) {
  if (PyGILState_GetThisThreadState() == nullptr) return 0;
  const ScopedGil gil;
  if (!gil.held()) return 0;
  int count = 0;
  PyFrameObject* frame = PyThreadState_GetFrame(PyThreadState_Get());
  while (frame != nullptr && count < capacity) {
    PyCodeObject* code = PyFrame_GetCode(frame);
    frames[count++] = {code, PyFrame_GetLasti(frame)};
    Py_DECREF(code);  // the frame keeps it
    PyFrameObject* outer = PyFrame_GetBack(frame);
    Py_DECREF(frame);
    frame = outer;
  }
  Py_XDECREF(frame);
  return count;
}

}  // namespace streamguard::hooks

#endif
