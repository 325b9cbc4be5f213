"""Runs a program in a process of its own whose torch sits on the virtual GPU.

The replacement libraries must be loaded before torch, so no test of values can run inside pytest.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from typing import Any

SCHEDULES = ("eager", "lazy")

_PREAMBLE = """
import json, sys
from streamguard.vgpu.load import load
load({devices})
import torch
from streamguard.vgpu import values
values.install()
"""


def start(
    program: str,
    *,
    schedule: str = "eager",
    devices: int = 1,
    environment: dict[str, str] | None = None,
) -> subprocess.CompletedProcess[str]:
    """Run a program with `torch`, `json` and `values` imported, and return how it ended.

    Args:
        program: Python source; common indentation is removed.
        schedule: STREAMGUARD_VGPU_SCHEDULE of the process.
        devices: Number of virtual devices.
        environment: Variables set beside it.
    """
    variables = {
        name: value for name, value in os.environ.items() if not name.startswith("STREAMGUARD")
    }
    # One thread: a product's rounding may depend on how many share it.
    variables |= {"STREAMGUARD_VGPU_SCHEDULE": schedule, "OMP_NUM_THREADS": "1"}
    source = _PREAMBLE.format(devices=devices) + textwrap.dedent(program)
    return subprocess.run(
        [sys.executable, "-c", source],
        env=variables | (environment or {}),
        capture_output=True,
        text=True,
        check=False,
    )


def result_of(
    program: str,
    *,
    schedule: str = "eager",
    devices: int = 1,
    environment: dict[str, str] | None = None,
) -> Any:
    """Run a program as `start` does and return the JSON value it printed on its last line."""
    run = start(program, schedule=schedule, devices=devices, environment=environment)
    assert run.returncode == 0, run.stderr[-3000:]
    return json.loads(run.stdout.splitlines()[-1])
