"""Small stream programs in one line per call: parse them, run them, compare with what they expect.

The notation is described in `tests/data/litmus/FORMAT.md`, the rules in
`docs/happens_before.md`. Nothing here needs torch or a GPU.
"""

from __future__ import annotations
