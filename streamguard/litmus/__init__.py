"""Small stream programs in one line per call: parse them, run them, compare with what they expect.

The notation is described in `docs/litmus_format.md`. Nothing here needs torch or a GPU.
"""

from __future__ import annotations
