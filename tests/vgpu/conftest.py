"""Runs programs on the virtual GPU, in processes of their own: it must be loaded before torch."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import textwrap
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

_HERE = Path(__file__).resolve().parent
_ROOT = _HERE.parents[1]
_TIMEOUT_S = 120  # a hang must end as a failure; nothing is asserted about time

_PREAMBLE = """
from streamguard.vgpu.load import load
load({devices})
"""
_VALUES = """
import torch
from streamguard.vgpu import values as _values
_values.install()
"""


@dataclass(frozen=True, slots=True)
class Finished:
    """How one rank's process ended."""

    status: int
    output: str
    errors: str

    @property
    def lines(self) -> list[str]:
        """Lines of standard output."""
        return self.output.splitlines()


RunVgpu = Callable[..., list[Finished]]


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _environment(schedule: str, extra: Mapping[str, str]) -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if not k.startswith(("STREAMGUARD", "CUDA_"))}
    path = os.pathsep.join([str(_ROOT), str(_HERE), kept.get("PYTHONPATH", "")])
    return {
        **kept,
        "PYTHONPATH": path.rstrip(os.pathsep),
        "STREAMGUARD_VGPU_SCHEDULE": schedule,
        "OMP_NUM_THREADS": "1",
        "TORCH_NCCL_DUMP_ON_TIMEOUT": "0",
        **extra,
    }


@pytest.fixture
def run_vgpu() -> RunVgpu:
    """`run_vgpu(code, schedule=, ranks=, devices=, values=, environment=, check=)`.

    Runs `code` in one process per rank, with the virtual GPU loaded, `RANK` and `WORLD_SIZE` set
    and tests/vgpu importable. With `check` every rank must end with status 0.
    """

    def run(
        code: str,
        *,
        schedule: str = "eager",
        ranks: int = 1,
        devices: int | None = None,
        values: bool = False,
        environment: Mapping[str, str] | None = None,
        check: bool = True,
    ) -> list[Finished]:
        program = _PREAMBLE.format(devices=devices or ranks)
        program += (_VALUES if values else "") + textwrap.dedent(code)
        shared = {
            "WORLD_SIZE": str(ranks),
            "MASTER_ADDR": "127.0.0.1",
            "MASTER_PORT": str(_free_port()),
            **(environment or {}),
        }
        processes = [
            subprocess.Popen(
                [sys.executable, "-c", program],
                env=_environment(schedule, {"RANK": str(rank), "LOCAL_RANK": str(rank), **shared}),
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            for rank in range(ranks)
        ]
        finished = []
        try:
            for process in processes:
                output, errors = process.communicate(timeout=_TIMEOUT_S)
                finished.append(Finished(process.returncode, output, errors))
        finally:
            for process in processes:
                process.kill()
        if check and any(one.status != 0 for one in finished):
            told = [f"rank {i}: {one.status}\n{one.errors}" for i, one in enumerate(finished)]
            pytest.fail("\n".join(told), pytrace=False)
        return finished

    return run
