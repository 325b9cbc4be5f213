#pragma once

#include <Python.h>

namespace streamguard::hooks {

inline constexpr int kMaxFrames = 16;

/// One Python frame: the code object and the byte offset of its current instruction.
struct Frame {
  PyCodeObject* code;
  int instruction_offset_bytes;
};

/// Writes the innermost `capacity` Python frames of the calling thread to `frames`; returns how
/// many.
///
/// Needs no GIL where the interpreter's layout is known (3.11, 3.12): a thread that is inside C++
/// cannot change its own stack. Elsewhere it takes the GIL. The code objects are borrowed: they
/// live at least until the calling thread returns to Python.
///
/// Cost: about 6 ns a frame without the GIL.
int walk_frames(Frame* frames, int capacity);

}  // namespace streamguard::hooks
