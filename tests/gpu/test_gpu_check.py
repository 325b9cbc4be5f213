"""`make gpu-check` where there is no GPU."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "tools" / "gpu_check.py"


def test_without_a_gpu_it_says_so_and_checks_nothing() -> None:
    """Status 3 and how to rehearse; nothing is built."""
    done = subprocess.run(
        [sys.executable, str(SCRIPT)],
        env={**os.environ, "CUDA_VISIBLE_DEVICES": ""}, capture_output=True, text=True,
    )  # fmt: skip

    assert done.returncode == 3
    assert done.stdout.startswith("gpu-check: no GPU here")
    assert "--virtual" in done.stdout
