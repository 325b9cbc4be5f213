"""Stands in for the CUDA toolkit where packages ask for its release while they are imported.

DeepSpeed 0.17.2, for one, runs `nvcc -V` at import and fails without an answer. A toolkit that is
installed is left alone. Why: docs/decisions/0003-toolkit-stand-in.md.
"""

from __future__ import annotations

import os
import shutil
from pathlib import Path

_TOOLKIT = Path(__file__).resolve().parent / "toolkit_stand_in"
_INSTALLED = Path("/usr/local/cuda")  # where torch looks last


def provide() -> None:
    """Set CUDA_HOME to the stand-in unless this machine has a toolkit."""
    if os.environ.get("CUDA_HOME") or os.environ.get("CUDA_PATH"):
        return
    if shutil.which("nvcc") or _INSTALLED.exists():
        return
    os.environ["CUDA_HOME"] = str(_TOOLKIT)
